"""Sample benchmarks through lm-eval, grade the samples, estimate pass@k and its kin."""
