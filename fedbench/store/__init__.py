"""Finished trials by the hash of their config, and the numbers that are read from them."""
