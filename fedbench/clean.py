"""Remove what is not a result from a results folder: python -m fedbench.clean."""

from fedbench.cli.main import run_module

if __name__ == "__main__":
    run_module("clean")
