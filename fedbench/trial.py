"""One federated run from the command line: python -m fedbench.trial --set method.name=fedavg --set data.alpha=0.1."""

import argparse
from collections.abc import Sequence

from fedbench.base.errors import UserError
from fedbench.base.plugins import import_modules
from fedbench.cli.command import Parser, invocation, run
from fedbench.cli.options import add_data_option, add_import_option, add_track_option, folder, text

CHECKPOINT_EVERY = 10


def parser() -> argparse.ArgumentParser:
    """The options of this command."""
    options = Parser(prog="python -m fedbench.trial", description="Run one federated run.")
    add = options.add_argument
    add("--set", action="append", default=[], metavar="KEY=VALUE", help="any setting, such as data.alpha=0.1")
    add("--config", type=text("a file"), metavar="FILE", help="settings from a YAML file; --set wins over it")
    add("--out", type=folder, metavar="DIR", help="folder for results; without it nothing is written")
    add("--checkpoint-every", type=int, metavar="N", help=f"rounds between checkpoints ({CHECKPOINT_EVERY}; 0: none)")
    add("--resume", action="store_true", help="go on with the run in --out")
    add("--save-model", action="store_true", help="write the final model to model.pt in --out")
    add("--show", action="store_true", help="print the resolved settings and their hash, and stop")
    add_import_option(options)
    add_data_option(options)
    add_track_option(options)
    return options


def check(options: argparse.Namespace) -> None:
    """Options that need each other."""
    if options.checkpoint_every is not None and options.checkpoint_every < 0:
        raise UserError(f"--checkpoint-every {options.checkpoint_every}: must be a whole number at least 0")
    for name, given in (
        ("--resume", options.resume),
        ("--save-model", options.save_model),
        ("--checkpoint-every", options.checkpoint_every is not None),
        ("--track", options.track),
    ):
        if given and not options.out:
            raise UserError(f"{name} needs --out DIR")


def main(arguments: Sequence[str]) -> int:
    """Run it; returns the exit code."""
    options = parser().parse_args(arguments)
    check(options)
    import_modules(options.modules)
    from fedbench.cli.trials import run_trial

    every = CHECKPOINT_EVERY if options.checkpoint_every is None else options.checkpoint_every
    return run_trial(options, every, invocation("fedbench.trial", arguments))


if __name__ == "__main__":
    run(main)
