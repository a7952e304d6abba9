"""The built-in data sets, one module per family. Each module registers its data sets when it is imported."""
