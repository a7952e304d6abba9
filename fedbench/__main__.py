"""All commands under one name: fedbench study, fedbench report, and so on."""

from collections.abc import Sequence
from importlib import import_module
from typing import NamedTuple

from fedbench import __version__
from fedbench.base.errors import UserError, unknown
from fedbench.base.text import say
from fedbench.cli.command import run


class Listed(NamedTuple):
    """A command as the help lists it; `module` has its `main`."""

    module: str
    purpose: str
    example: str


COMMANDS = {
    "study": Listed("fedbench.study", "run a study and show its tables", "fedbench study fixed_gamma"),
    "report": Listed("fedbench.report", "show the tables of stored trials again", "fedbench report methods --check"),
    "search": Listed("fedbench.search", "find the best settings of methods", "fedbench search fixed_gamma --trials 12"),
    "trial": Listed("fedbench.trial", "run a single trial", "fedbench trial --set method.name=fedlaw --out runs/first"),
    "data": Listed("fedbench.data.__main__", "list, download and verify data sets", "fedbench data get cifar10"),
    "new": Listed("fedbench.new", "write an example of a method, model and the like", "fedbench new method my_rule"),
    "publish": Listed(
        "fedbench.publish", "pack stored trials for others", "fedbench publish fixed_gamma --to published"
    ),
    "verify": Listed(
        "fedbench.verify", "run published trials again and compare", "fedbench verify published --trials 1"
    ),
    "speed": Listed("fedbench.speed", "measure how fast this machine is", "fedbench speed"),
    "clean": Listed("fedbench.clean", "remove what is not a result from a folder", "fedbench clean --dry-run"),
}


def main(arguments: Sequence[str]) -> int:
    """Run the named command; return its exit code."""
    if not arguments:
        raise UserError(f"name a command: {', '.join(COMMANDS)} (fedbench --help says what they are for)")
    name, *rest = arguments
    if name in ("-V", "--version"):
        say(f"fedbench {__version__}")
        return 0
    if name == "help" and rest:
        name, rest = rest[0], ["--help"]
    if name in ("-h", "--help", "help"):
        say(usage())
        return 0
    if name not in COMMANDS:
        raise UserError(unknown("command", name, COMMANDS))
    code: int = import_module(COMMANDS[name].module).main(rest)
    return code


def usage() -> str:
    """Return the help text: every command with a line on what it is for, and an example."""
    lines = ["usage: fedbench COMMAND ...", "", "Compare aggregation methods of federated learning.", ""]
    for name, listed in COMMANDS.items():
        lines += [f"  {name:9}{listed.purpose}", f"  {'':9}  {listed.example}"]
    return "\n".join([*lines, "", "fedbench COMMAND --help, or fedbench help COMMAND, shows the options of a command."])


def console() -> None:
    """The console script."""
    run(main)


if __name__ == "__main__":
    console()
