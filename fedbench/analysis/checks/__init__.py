"""The checks of claims, one file each: what a claim must say, and the evidence for it."""
