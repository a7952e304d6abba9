"""The suggestions of a search, and its report."""
