"""The command `python -m fedbench.data get|check NAME`, which downloads and verifies data sets."""

from fedbench.cli.main import run_module

if __name__ == "__main__":
    run_module("data")
