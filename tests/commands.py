"""The commands of fedbench as functions of their arguments, which return exit codes."""

from functools import partial

from fedbench.cli.main import main as fedbench
from fedbench.cli.main import run_command

clean, data, new, publish, report, search, speed, study, trial, verify = (
    partial(run_command, name)
    for name in ("clean", "data", "new", "publish", "report", "search", "speed", "study", "trial", "verify")
)

__all__ = ["clean", "data", "fedbench", "new", "publish", "report", "search", "speed", "study", "trial", "verify"]
