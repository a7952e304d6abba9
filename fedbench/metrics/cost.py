"""What a run costs: seconds, and what travels."""

from fedbench.metrics.base import Metric, TrialData, register_metric, summary

PARTS = ("seconds_train", "seconds_server", "seconds_eval")


def seconds(trial: TrialData) -> float | None:
    """Return the seconds of a run in training, on the server and in scoring."""
    return sum(trial.summary[part] for part in PARTS) if PARTS[0] in trial.summary else None


def megabytes(trial: TrialData) -> float | None:
    """Return the traffic of all rounds, up and down."""
    if "bytes_up" not in trial.summary:
        return None
    return float(trial.summary["bytes_up"] + trial.summary["bytes_down"]) / 1e6


register_metric("seconds", Metric("seconds", seconds, 1, better="lower"))
register_metric("server_seconds", Metric("seconds on the server", summary("seconds_server"), 1, better="lower"))
register_metric("megabytes", Metric("traffic (MB)", megabytes, 1, better="lower"))
