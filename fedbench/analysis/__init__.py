"""Tables, claims, ranks and comparisons, computed from stored trials: data in, data out."""
