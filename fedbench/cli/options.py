"""Options that several commands share, and the values that they stand for. Quick to import."""

import argparse
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from fedbench.base.errors import UserError
from fedbench.base.files import RESULTS
from fedbench.cli.command import is_command
from fedbench.jobs.options import Request, RunKeywords, Selection, SelectKeywords, StudyKeywords, request, select
from fedbench.specs.names import SCALES


def add_study_options(
    options: argparse.ArgumentParser,
    *,
    seeds: str = "other seeds than the study's",
    only: str = "run only these points of an axis; again for another axis",
) -> None:
    """Add the options that select trials of a study or search space, and change them."""
    add_scale_option(options)
    options.add_argument("--seeds", metavar="N[,N]", help=seeds)
    options.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="change a base setting; again for more"
    )
    add_pick_options(options, only)
    add_import_option(options)


def add_scale_option(options: argparse.ArgumentParser) -> None:
    """Add the option that says how large a study is."""
    options.add_argument(
        "--scale",
        choices=SCALES,
        default="quick",
        help="quick: minutes on a laptop (default); desk: real data, hours on two cores; paper: the paper's setting; "
        "tiny: two rounds, to try things",
    )


def add_pick_options(options: argparse.ArgumentParser, only: str) -> None:
    """Add the options that pick points of a study, and name the results folder."""
    add = options.add_argument
    add("--only", action="append", default=[], metavar="KEY=VALUE[,VALUE]", help=only)
    add("--out", type=folder, default=RESULTS, metavar="DIR", help="where all results are kept (results)")


def folder(text: str) -> Path:
    """Convert the value of an option that names a folder; an empty one is an error, not the current folder."""
    if not text.strip():
        raise argparse.ArgumentTypeError("name a folder")
    return Path(text)


def text(what: str) -> Callable[[str], str]:
    """Return the converter of an option that takes a text; an empty one is an error, not the default."""

    def convert(value: str) -> str:
        if not value.strip():
            raise argparse.ArgumentTypeError(f"name {what}")
        return value

    return convert


def add_import_option(options: argparse.ArgumentParser) -> None:
    """Add the option that imports users' own modules."""
    options.add_argument(
        "--import",
        action="append",
        default=[],
        metavar="MODULE",
        dest="modules",
        help="a module with methods, models, data sets and the like of your own",
    )


def add_data_option(options: argparse.ArgumentParser) -> None:
    """Add the option that says where data sets are."""
    options.add_argument(
        "--data-dir", type=folder, metavar="DIR", help="where data sets are (default: $FEDBENCH_DATA, then a cache)"
    )


def add_track_option(options: argparse.ArgumentParser, *, of: str = "") -> None:
    """Add the option that names trackers."""
    options.add_argument(
        "--track",
        action="append",
        default=[],
        metavar="NAME",
        help=f"show every round{of} in a tracker: tensorboard, mlflow, wandb; again for another",
    )


def add_run_options(options: argparse.ArgumentParser, *, fresh: str, strict: str, tracked: str = "") -> None:
    """Add the options that say whether and how trials are run: those of `RunKeywords`, and what comes before."""
    add = options.add_argument
    add("--dry-run", action="store_true", help="say what would be run and what it would cost, and stop")
    add(
        "--try",
        dest="rehearse",
        action=argparse.BooleanOptionalAction,
        help="first run one round of each kind of trial on tiny data (default: where code of your own is used)",
    )
    add("--keep-going", action="store_true", help="go on even if the first trials of three kinds all fail alike")
    add("--fresh", action="store_true", help=fresh)
    add("--strict", action="store_true", help=f"exit with 1 if any {strict} failed or diverged")
    add_data_option(options)
    add_track_option(options, of=tracked)
    add(
        "--address",
        type=text("a cluster, HOST:PORT or auto"),
        metavar="HOST:PORT",
        help="a running Ray cluster, or auto (default: start one here)",
    )
    add("--autoscaling", action="store_true", help="the cluster grows on demand: wait for nodes that it lacks")
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
        metavar="N|auto",
        help="share of a GPU for each trial, and of its memory (auto: as many trials on each as fit; 0 keeps to CPUs)",
    )
    add(
        "--resources",
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


def selection_of(options: argparse.Namespace) -> Selection:
    """Return the selection that options describe."""
    return select(options.name, options.scale, options.out, _keywords(options, SelectKeywords))


def request_of(options: argparse.Namespace, *, search: bool = False) -> Request:
    """Return what to run and how, as options describe it; search: whether a search is meant, rather than a study."""
    keywords = _keywords(options, RunKeywords if search else StudyKeywords)
    save_model = not search and options.save_model
    where = (options.name, options.scale, options.out)
    return request(*where, keywords, save_model=save_model, search=search, supervised=is_command())


def _keywords(options: argparse.Namespace, known: type) -> dict[str, Any]:
    """Return options as the keywords that a typed dictionary names."""
    keywords = {name: value for name, value in vars(options).items() if name in known.__annotations__}
    if options.set:
        from fedbench.base.settings import parse_assignments

        return {**keywords, "set": parse_assignments(options.set), "only": _points(options.only)}
    return {**keywords, "set": None, "only": _points(options.only)}


def _points(texts: Iterable[str]) -> dict[str, list[str]]:
    """Return the labels that --only picks, by axis."""
    points: dict[str, list[str]] = {}
    for text in texts:
        key, equals, values = text.partition("=")
        if not equals or not values:
            raise UserError(f"--only {text}: expected key=value[,value], such as data.alpha=100,1")
        points.setdefault(key, []).append(values)
    return points
