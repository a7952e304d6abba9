"""Begin something of one's own: python -m fedbench.new method my_rule writes my_rule.py, which works, and its test."""

import argparse
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from fedbench.base.text import say
from fedbench.cli.command import DONE, Parser, run
from fedbench.cli.options import folder
from fedbench.templates import EXAMPLES, usage, write

PYTEST = '    # after pip install -e ".[test]" in the checkout, or pip install pytest outside of it'


def parser() -> argparse.ArgumentParser:
    """The options of this command."""
    options = Parser(prog="python -m fedbench.new", description="Begin something of your own, with its test.")
    options.add_argument("kind", choices=list(EXAMPLES), help="what to begin")
    options.add_argument("name", metavar="NAME", help="what to call it, such as my_rule")
    options.add_argument("--to", type=folder, default=Path(), metavar="DIR", help="where to write (the current folder)")
    return options


def main(arguments: Sequence[str]) -> int:
    """Run it; returns the exit code."""
    options = parser().parse_args(arguments)
    file, test = write(options.kind, options.name, options.to)
    there = "" if options.to == Path() else f"cd {options.to} && "
    say(f"{file} and {test}; try them:")
    say(f"    {there}python -m fedbench.{usage(options.kind, options.name)}")
    say(f"    {there}python -m pytest {test.name}{PYTEST if find_spec('pytest') is None else ''}")
    return DONE


if __name__ == "__main__":
    run(main)
