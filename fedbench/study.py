"""Run a study and show its tables: python -m fedbench.study fixed_gamma."""

from fedbench.cli.main import run_module

if __name__ == "__main__":
    run_module("study")
