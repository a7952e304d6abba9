"""Begin a method, model and the like, with its test: python -m fedbench.new method my_rule."""

from fedbench.cli.main import run_module

if __name__ == "__main__":
    run_module("new")
