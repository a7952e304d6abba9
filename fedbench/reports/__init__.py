"""A study's tables, claims, parity with the paper and plots, made from the store alone."""
