"""Data sets, their partition over clients, and what a federation consists of."""
