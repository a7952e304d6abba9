"""What knows nothing of federated learning: errors, registries, randomness, settings, files."""
