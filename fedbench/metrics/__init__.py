"""Metrics over stored trials, one file a family: one number a trial, with its label, unit and digits."""

from fedbench.metrics.base import METRICS, Metric, TrialData, register_metric

__all__ = ["METRICS", "Metric", "TrialData", "register_metric"]
