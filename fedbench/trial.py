"""Run a single trial: python -m fedbench.trial --set method.name=fedavg --set data.alpha=0.1."""

from fedbench.cli.main import run_module

if __name__ == "__main__":
    run_module("trial")
