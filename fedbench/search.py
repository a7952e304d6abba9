"""Search for the best settings of methods: python -m fedbench.search fixed_gamma --trials 12."""

from fedbench.cli.main import run_module

if __name__ == "__main__":
    run_module("search")
