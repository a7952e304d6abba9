"""Pack a study's finished trials for others: python -m fedbench.publish methods."""

from fedbench.cli.main import run_module

if __name__ == "__main__":
    run_module("publish")
