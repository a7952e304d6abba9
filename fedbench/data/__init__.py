"""Data sets, their partition over clients, and the federation of one run."""
