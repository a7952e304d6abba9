"""All command lines under one name: fedbench study|search|trial|report|publish|verify|data|new|speed|clean."""

from collections.abc import Sequence
from importlib import import_module

from fedbench.base.errors import UserError, unknown
from fedbench.terminal.command import run

COMMANDS = {
    "study": "fedbench.study",
    "search": "fedbench.search",
    "trial": "fedbench.trial",
    "report": "fedbench.report",
    "publish": "fedbench.publish",
    "verify": "fedbench.verify",
    "data": "fedbench.data.__main__",
    "new": "fedbench.new",
    "speed": "fedbench.speed",
    "clean": "fedbench.clean",
}


def main(arguments: Sequence[str]) -> int:
    """Run the named command; returns its exit code."""
    if not arguments:
        raise UserError(f"name a command: {', '.join(COMMANDS)}")
    if arguments[0] in ("-h", "--help"):
        print(f"usage: fedbench {'|'.join(COMMANDS)} ... (each with --help)")
        return 0
    name, *rest = arguments
    if name not in COMMANDS:
        raise UserError(unknown("command", name, COMMANDS))
    code: int = import_module(COMMANDS[name]).main(rest)
    return code


def console() -> None:
    """The console script."""
    run(main)


if __name__ == "__main__":
    console()
