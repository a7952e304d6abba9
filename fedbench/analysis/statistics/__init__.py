"""Statistics over seeds and cells as plain numbers: means, intervals, verdicts, ranks, variance components."""
