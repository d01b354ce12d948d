"""Turn run folders into tables, figures, verdicts and one report."""
