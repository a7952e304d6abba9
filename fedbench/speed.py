"""How fast this machine is, and the options to use on it: python -m fedbench.speed."""

import argparse
from collections.abc import Sequence

from fedbench.base.errors import UserError
from fedbench.base.plugins import import_modules
from fedbench.cli.command import Parser, run
from fedbench.cli.options import add_import_option, folder, text

MODELS = "mlp,simple_cnn,resnet20"
SECONDS = 45.0  # with the time to start, a minute


def parser() -> argparse.ArgumentParser:
    """The options of this command."""
    options = Parser(
        prog="python -m fedbench.speed",
        description="Measure how fast trials train here, in all engines, precisions and numbers of trials at once.",
    )
    add = options.add_argument
    add("--models", type=text("models"), default=MODELS, metavar="NAME[,NAME]", help=f"what to measure ({MODELS})")
    add("--seconds", type=float, default=SECONDS, metavar="N", help=f"about how long to measure ({SECONDS:g})")
    add("--out", type=folder, metavar="DIR", help="results folder to keep it for (default: the cache, for all)")
    add_import_option(options)
    return options


def main(arguments: Sequence[str]) -> int:
    """Run it; returns the exit code."""
    options = parser().parse_args(arguments)
    if not 1 <= options.seconds <= 86400:
        raise UserError(f"--seconds {options.seconds:g}: must be from 1 to 86400")
    import_modules(options.modules)
    from fedbench.cli.speed import run_speed

    return run_speed(options)


if __name__ == "__main__":
    run(main)
