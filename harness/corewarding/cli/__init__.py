"""The command line. Nothing here computes; it parses, calls and prints."""
