"""Measure how fast this machine is: python -m fedbench.speed."""

from fedbench.cli.main import run_module

if __name__ == "__main__":
    run_module("speed")
