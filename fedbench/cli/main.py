"""The command `fedbench` and its subcommands; the shortest ones, trial, data, new and speed, are defined here."""

import argparse
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

from fedbench import __version__
from fedbench.base.errors import UserError, unknown
from fedbench.base.plugins import import_modules
from fedbench.base.text import say
from fedbench.cli.command import DONE, FAILED, Command, Parser, invocation, run
from fedbench.cli.options import add_data_option, add_import_option, add_track_option, folder, text
from fedbench.cli.results import CLEAN, PUBLISH, REPORT, VERIFY
from fedbench.cli.runs import SEARCH, STUDY
from fedbench.templates import EXAMPLES, usage, write

CHECKPOINT_EVERY = 10  # rounds
SPEED_MODELS = "mlp,simple_cnn,resnet20"
SPEED_SECONDS = 45.0  # a minute, together with the time to start
PYTEST = '    # after pip install -e ".[test]" in the checkout, or pip install pytest outside of it'


def add_trial_command(options: argparse.ArgumentParser) -> None:
    """Add the options of the command `trial`."""
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


def run_trial(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Run the command `trial`; return its exit code."""
    every = options.checkpoint_every
    if every is not None and every < 0:
        raise UserError(f"--checkpoint-every {every}: must be a whole number at least 0")
    for name, given in (
        ("--resume", options.resume),
        ("--save-model", options.save_model),
        ("--checkpoint-every", every is not None),
        ("--track", options.track),
    ):
        if given and not options.out:
            raise UserError(f"{name} needs --out DIR")
    import_modules(options.modules)
    from fedbench.cli import trial

    return trial.run_trial(options, CHECKPOINT_EVERY if every is None else every, invocation("trial", arguments))


def add_data_command(options: argparse.ArgumentParser) -> None:
    """Add the options of the command `data`."""
    add = options.add_argument
    add("action", choices=["get", "check"], help="get: download if need be, verify; check: verify only")
    add("name", metavar="NAME", help="a data set, such as cifar10, or the path of a file of your own")
    add_data_option(options)
    add_import_option(options)


def run_data(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Run the command `data`; return its exit code."""
    import_modules(options.modules)
    from fedbench.data.base import DATASETS
    from fedbench.data.official import check_data_dir
    from fedbench.data.own import FILE, dataset_of
    from fedbench.simulation.federation import verified

    own = options.name not in DATASETS and Path(options.name).exists()
    dataset = dataset_of(FILE, options.name) if own else DATASETS.get(options.name)
    if options.action == "check":
        check_data_dir(options.data_dir)
    arrays, where = verified(dataset, options.data_dir, download=options.action == "get")
    size = "x".join(map(str, dataset.shape))
    samples = {"uint8": "images", "float32": "samples of float32", "tokens": "samples of one-hot tokens"}[dataset.kind]
    owners = f", {dataset.owners} owners" if dataset.owners else ""
    say(
        f"{dataset.name}: {len(arrays.train_labels)} train and {len(arrays.test_labels)} test {samples} of {size}, "
        f"{dataset.num_classes} classes{owners}, as they should be ({where})"
    )
    return DONE


def add_new_command(options: argparse.ArgumentParser) -> None:
    """Add the options of the command `new`."""
    add = options.add_argument
    add("kind", choices=list(EXAMPLES), help="what to begin")
    add("name", metavar="NAME", help="what to call it, such as my_rule")
    add("--to", type=folder, default=Path(), metavar="DIR", help="where to write (the current folder)")


def run_new(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Run the command `new`; return its exit code."""
    file, test = write(options.kind, options.name, options.to)
    there = "" if options.to == Path() else f"cd {options.to} && "
    say(f"{file} and {test}; try them:")
    say(f"    {there}python -m fedbench.{usage(options.kind, options.name)}")
    say(f"    {there}python -m pytest {test.name}{PYTEST if find_spec('pytest') is None else ''}")
    return DONE


def add_speed_command(options: argparse.ArgumentParser) -> None:
    """Add the options of the command `speed`."""
    add, models, seconds = options.add_argument, SPEED_MODELS, SPEED_SECONDS
    add(
        "--check", action="store_true", help="instead: check that results and memory are as promised here, for an issue"
    )
    what = f"what to measure ({models}), or to check (all)"
    add("--models", type=text("models"), metavar="NAME[,NAME]", help=what)
    add("--seconds", type=float, metavar="N", help=f"about how long to measure ({seconds:g})")
    add("--out", type=folder, metavar="DIR", help="results folder to keep it for (default: the cache, for all)")
    add_import_option(options)


def run_speed(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Run the command `speed`; return its exit code."""
    seconds = SPEED_SECONDS if options.seconds is None else options.seconds
    if not 1 <= seconds <= 86400:
        raise UserError(f"--seconds {seconds:g}: must be from 1 to 86400")
    if options.check and (options.seconds is not None or options.out):
        raise UserError("--check: takes as long as it takes, and keeps nothing; leave out --seconds and --out")
    import_modules(options.modules)
    from fedbench.cli import speed

    if options.check:
        from fedbench.cli.check import run_check

        models = speed.chosen_models(options.models) if options.models else None
        return DONE if run_check(models, options.modules) else FAILED
    speed.run_speed(options.models or SPEED_MODELS, seconds, options.out, options.modules)
    return DONE


COMMANDS = {
    "study": STUDY,
    "report": REPORT,
    "search": SEARCH,
    "trial": Command(
        "run a single trial",
        "fedbench trial --set method.name=fedlaw --out runs/first",
        "Run one federated run.",
        add_trial_command,
        run_trial,
    ),
    "data": Command(
        "download and verify data sets",
        "fedbench data get cifar10",
        "Fetch and verify data sets.",
        add_data_command,
        run_data,
    ),
    "new": Command(
        "write an example of a method, model and the like",
        "fedbench new method my_rule",
        "Begin something of your own, with its test.",
        add_new_command,
        run_new,
    ),
    "publish": PUBLISH,
    "verify": VERIFY,
    "speed": Command(
        "measure how fast this machine is",
        "fedbench speed",
        "Measure how fast trials train here, in all engines, precisions and numbers of trials at once.",
        add_speed_command,
        run_speed,
    ),
    "clean": CLEAN,
}


def parser() -> Parser:
    """Return the parser of `fedbench`, with all of its subcommands."""
    options = Parser(
        prog="fedbench",
        description="Compare aggregation methods of federated learning.",
        epilog="\n".join(["examples:", *(f"  {command.example}" for command in COMMANDS.values())]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    options.add_argument("-V", "--version", action="version", version=f"fedbench {__version__}")
    commands = options.add_subparsers(dest="command", metavar="COMMAND", title="commands (COMMAND --help explains one)")
    for name, command in COMMANDS.items():
        command.add_options(commands.add_parser(name, help=command.purpose, description=command.description))
    return options


def main(arguments: Sequence[str]) -> int:
    """Run `fedbench` with arguments; return the exit code."""
    if not arguments:
        raise UserError(f"name a command: {', '.join(COMMANDS)} (fedbench --help says what they are for)")
    name, *rest = arguments
    if name == "help":
        name, rest = (rest[0], ["--help"]) if rest else ("--help", [])
    if name not in COMMANDS and not name.startswith("-"):
        raise UserError(unknown("command", name, COMMANDS))
    options = parser().parse_args([name, *rest])
    return COMMANDS[options.command].run(options, rest)


def parser_of(name: str) -> Parser:
    """Return the parser of one command as a module of its own: python -m fedbench.NAME."""
    options = Parser(prog=f"python -m fedbench.{name}", description=COMMANDS[name].description)
    COMMANDS[name].add_options(options)
    return options


def run_command(name: str, arguments: Sequence[str]) -> int:
    """Run one command as a module of its own; return the exit code."""
    return COMMANDS[name].run(parser_of(name).parse_args(arguments), arguments)


def run_module(name: str) -> NoReturn:
    """Run one command as this process, with the arguments of the process, and exit."""
    run(partial(run_command, name))


def console() -> NoReturn:
    """Run `fedbench` as this process, and exit."""
    run(main)
