"""Indicators of section 5 of the paper: pure functions of tensors."""
