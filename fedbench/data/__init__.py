"""Data sets, partitions of their samples over clients, and the data structures of a federation."""
