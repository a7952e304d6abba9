"""Show the tables and plots of stored trials again: python -m fedbench.report fixed_gamma."""

from fedbench.cli.main import run_module

if __name__ == "__main__":
    run_module("report")
