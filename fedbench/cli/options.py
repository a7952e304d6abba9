"""The options that several command lines share. Quick to import: nothing here needs torch, or Ray."""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from fedbench.base.errors import UserError
from fedbench.base.files import RESULTS
from fedbench.cli.command import is_command
from fedbench.specs.names import SCALES
from fedbench.tune.options import RunOptions

OWN_OPTIONS = {"CPU": "--cpus-per-trial", "GPU": "--gpus-per-trial"}  # resources of Ray's that have one


def add_study_options(
    options: argparse.ArgumentParser,
    *,
    seeds: str = "other seeds than the study's",
    only: str = "run only these points of an axis; again for another axis",
) -> None:
    """The options that say which study, at which scale, with which changes: shared with reports and searches."""
    add = options.add_argument
    add_scale_option(options)
    add("--seeds", metavar="N[,N]", help=seeds)
    add("--set", action="append", default=[], metavar="KEY=VALUE", help="change a base setting; again for more")
    add_pick_options(options, only)
    add_import_option(options)


def add_scale_option(options: argparse.ArgumentParser) -> None:
    """The option that says how large a study is."""
    options.add_argument(
        "--scale",
        choices=SCALES,
        default="quick",
        help="quick: minutes on a laptop (default); desk: real data, hours on two cores; paper: the paper's setting; "
        "tiny: two rounds, to try things",
    )


def add_pick_options(options: argparse.ArgumentParser, only: str) -> None:
    """The options that say which points of a study, in which folder."""
    add = options.add_argument
    add("--only", action="append", default=[], metavar="KEY=VALUE[,VALUE]", help=only)
    add("--out", type=folder, default=RESULTS, metavar="DIR", help="where all results are kept (results)")


def folder(text: str) -> Path:
    """The type of an option that names a folder: no name at all is a mistake, not the current folder."""
    if not text.strip():
        raise argparse.ArgumentTypeError("name a folder")
    return Path(text)


def text(what: str) -> Callable[[str], str]:
    """The type of an option that takes a text: an empty one is a mistake, not the default."""

    def read(given: str) -> str:
        if not given.strip():
            raise argparse.ArgumentTypeError(f"name {what}")
        return given

    return read


def add_import_option(options: argparse.ArgumentParser) -> None:
    """The option that brings in what users wrote."""
    options.add_argument(
        "--import",
        action="append",
        default=[],
        metavar="MODULE",
        dest="modules",
        help="a module with methods, models, data sets and the like of your own",
    )


def add_list_options(options: argparse.ArgumentParser, what: str) -> None:
    """The options of a command that can list what comes with fedbench."""
    options.add_argument("--list", action="store_true", help=f"list the built-in {what}")
    options.add_argument("--json", action="store_true", help="with --list: as JSON")


def add_conduct_options(options: argparse.ArgumentParser, *, fresh: str, strict: str) -> None:
    """The options that say whether to run at all, what to forget before, and what to make of failures."""
    add = options.add_argument
    add("--dry-run", action="store_true", help="say what would be run and what it would cost, and stop")
    add("--fresh", action="store_true", help=fresh)
    add("--strict", action="store_true", help=f"exit with 1 if any {strict} failed or diverged")


def add_data_option(options: argparse.ArgumentParser) -> None:
    """The option that says where data are."""
    options.add_argument(
        "--data-dir", type=folder, metavar="DIR", help="where data sets are (default: $FEDBENCH_DATA, then a cache)"
    )


def add_track_option(options: argparse.ArgumentParser, *, of: str = "") -> None:
    """The option that asks for trackers."""
    options.add_argument(
        "--track",
        action="append",
        default=[],
        metavar="NAME",
        help=f"show every round{of} in a tracker: tensorboard, mlflow, wandb; again for another",
    )


def add_run_options(options: argparse.ArgumentParser, *, tracked: str = "") -> None:
    """The options that say what of the machine or cluster a trial takes, and who watches."""
    add = options.add_argument
    add_data_option(options)
    add_track_option(options, of=tracked)
    add(
        "--address",
        type=text("a cluster, HOST:PORT or auto"),
        metavar="HOST:PORT",
        help="a running Ray cluster, or auto (default: start one here)",
    )
    add(
        "--autoscaling",
        action="store_true",
        help="the cluster grows on demand: wait for nodes that it lacks",
    )
    add("--ship", action="store_true", help="send fedbench itself to the cluster's nodes, as it is here")
    add(
        "--checkpoints",
        type=text("a place, a URI or a path"),
        metavar="URI",
        help="keep checkpoints of running trials there, too: s3://, gs://, hdfs:// or a path that all nodes see",
    )
    add("--cpus-per-trial", type=float, default=1.0, metavar="N", help="CPUs, and threads, of each trial (1)")
    add(
        "--gpus-per-trial",
        type=gpu_share,
        metavar="N|auto",
        help="share of a GPU for each trial, and of its memory (auto: as many trials on each as fit; 0 keeps to CPUs)",
    )
    add(
        "--resources",
        type=custom_resource,
        action="append",
        default=[],
        metavar="NAME=N",
        help="a further resource of Ray's that each trial takes, such as accelerator_type:A100=0.001; again for more",
    )
    add("--max-concurrent", type=int, metavar="N", help="trials at a time (as many as fit)")
    add(
        "--max-failures", type=int, default=3, metavar="N", help="how often a trial whose process died is restarted (3)"
    )
    add("--dashboard", action=argparse.BooleanOptionalAction, default=False, help="start Ray's dashboard")


def gpu_share(text: str) -> float | None:
    """The type of an option that takes a share of a GPU: None for auto. Ray takes no fraction above 1."""
    if text == "auto":
        return None
    try:
        share = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a share, such as 0.25, or auto") from None
    if share > 1 and not share.is_integer():
        raise argparse.ArgumentTypeError(f"{text!r}: expected a share below 1, such as 0.25, a whole number, or auto")
    return share


def custom_resource(text: str) -> tuple[str, float]:
    """The type of an option that takes a resource of Ray's and how much of it."""
    name, _, amount = text.rpartition("=")
    try:
        value = float(amount)
    except ValueError:
        value = 0.0
    if not name or not 0 < value < float("inf") or (value > 1 and value != int(value)):
        raise argparse.ArgumentTypeError(
            f"{text!r}: expected NAME=N, N whole or below 1, such as accelerator_type:A100=0.001"
        )
    if name in OWN_OPTIONS:
        raise argparse.ArgumentTypeError(f"{text!r}: use {OWN_OPTIONS[name]}")
    return name, value


def chosen_seeds(options: argparse.Namespace) -> list[int] | None:
    """The seeds that the options name, if they do."""
    try:
        seeds = None if options.seeds is None else [int(seed) for seed in options.seeds.split(",")]
    except ValueError:
        raise UserError(f"--seeds {options.seeds!r}: expected whole numbers, such as 8,9,10") from None
    if seeds and len(set(seeds)) < len(seeds):
        twice = [seed for number, seed in enumerate(seeds) if seed in seeds[:number]]
        raise UserError(f"--seeds {options.seeds}: {twice[0]} stands twice; name it once")
    return seeds


def check_resources(options: argparse.Namespace) -> None:
    """Numbers that make no sense, found before Ray starts."""
    for name, value, least in (
        ("--cpus-per-trial", options.cpus_per_trial, 0.01),
        ("--gpus-per-trial", options.gpus_per_trial, 0),
        ("--max-concurrent", options.max_concurrent, 1),
        ("--max-failures", options.max_failures, 0),
    ):
        if value is not None and not value >= least:
            raise UserError(f"{name} {value}: must be at least {least}")
    if options.autoscaling and not options.address:
        raise UserError("--autoscaling: goes with --address")
    if options.ship and not options.address:
        raise UserError("--ship: goes with --address")


def checkpoint_place(uri: str | None) -> str | None:
    """Where --checkpoints keeps them, if it was said; a place that cannot be used is an error."""
    if uri is None:
        return None
    from fedbench.store.mirror import check_place  # imports torch

    return check_place(uri)


def run_options(options: argparse.Namespace, modules: Sequence[str] = (), *, kind: str = "") -> RunOptions:
    """What the runner needs to know; `modules` are those that the study or space file imports.

    kind: goes before the name of what is run.
    """
    return RunOptions(
        out=options.out,
        study=kind + Path(options.name).stem,
        scale=options.scale,
        data_dir=options.data_dir,
        address=options.address,
        cpus_per_trial=options.cpus_per_trial,
        gpus_per_trial=options.gpus_per_trial,
        resources=dict(options.resources),
        max_concurrent=options.max_concurrent,
        max_failures=options.max_failures,
        dashboard=options.dashboard,
        autoscaling=options.autoscaling,
        ship=options.ship,
        supervised=is_command(),
        checkpoints=checkpoint_place(options.checkpoints),
        modules=(*options.modules, *modules),
        trackers=tuple(options.track),
    )
