"""Figures, one style for all: colour-blind-safe, labelled, with bands for the spread over seeds."""

from fedbench.reports.plots.figure import draw

__all__ = ["draw"]
