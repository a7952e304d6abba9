"""Run published trials again and compare: python -m fedbench.verify published --trials 2 --seed 1."""

from fedbench.cli.main import run_module

if __name__ == "__main__":
    run_module("verify")
