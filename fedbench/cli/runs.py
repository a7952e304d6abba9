"""The commands that run trials on Ray: study and search. Quick to import."""

import argparse
import sys
from collections.abc import Callable, Sequence

from fedbench.base.errors import UserError, one_line
from fedbench.base.plugins import import_modules
from fedbench.base.text import say
from fedbench.cli.command import DONE, FAILED, Command, command_line, invocation, is_command
from fedbench.cli.options import add_run_options, add_study_options, request_of, text
from fedbench.cli.supervise import supervised
from fedbench.jobs.job import EVERYTHING, Job, Process, Unfinished, carry_out, no_collector
from fedbench.jobs.options import Request
from fedbench.specs.library import built_in, path_of
from fedbench.specs.names import SAMPLERS


def add_study_command(options: argparse.ArgumentParser) -> None:
    """Add the options of the command `study`."""
    add = options.add_argument
    add("name", nargs="?", metavar="NAME|FILE", help="a built-in study, all of them (all), or a YAML file")
    _add_list_options(options, "studies")
    add_study_options(options)
    add_run_options(options, fresh="remove what is stored of this study and run it again", strict="trial")
    add(
        "--decide",
        action="store_true",
        help="add seeds, with looks at 3, 5, 8 and 12, until claims and comparisons with the baseline are decided",
    )
    add("--most-seeds", type=int, metavar="N", help="with --decide: at most 5, 8, 12 or 20 seeds (12)")
    add("--budget", type=float, metavar="HOURS", help="with --decide: begin no look that would end later")
    add("--save-model", action="store_true", help="keep the final model of every trial that is run, in OUT/models")


def add_search_command(options: argparse.ArgumentParser) -> None:
    """Add the options of the command `search`."""
    add = options.add_argument
    add("name", nargs="?", metavar="NAME|FILE", help="a built-in search space, or a YAML file of your own")
    _add_list_options(options, "search spaces")
    add("--trials", type=int, metavar="N", help="suggestions for each method, in total with those that there are")
    add("--sampler", choices=SAMPLERS, default="tpe", help="how Optuna chooses (tpe)")
    add("--scheduler", choices=("asha", "none"), default="asha", help="asha stops what falls behind (asha)")
    add("--storage", type=text("a storage"), metavar="URL", help="Optuna's storage (an SQLite file under --out)")
    add_study_options(
        options, seeds="other seeds for the table", only="search only these methods: --only method=FedAvg,FedLAW"
    )
    add_run_options(
        options,
        fresh="forget the suggestions of this search and start over",
        strict="suggestion or run of the table",
        tracked=" of the table's runs",
    )


def _add_list_options(options: argparse.ArgumentParser, what: str) -> None:
    options.add_argument("--list", action="store_true", help=f"list the built-in {what}")
    options.add_argument("--json", action="store_true", help="with --list: as JSON")


def run_study(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Run the command `study`; return its exit code."""
    if listed(options, "studies", "study", (EVERYTHING,)):
        return DONE

    def start(request: Request) -> Job:
        from fedbench.jobs.study import StudyJob

        return StudyJob(request)

    return conduct("study", start, request_of(options), arguments)


def run_search(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Run the command `search`; return its exit code."""
    if listed(options, "search_spaces", "search space"):
        return DONE

    def start(request: Request) -> Job:
        from fedbench.jobs.search import SearchJob, SearchOptions

        stop_early = options.scheduler == "asha"
        return SearchJob(request, SearchOptions(options.trials, options.sampler, stop_early, options.storage))

    return conduct("search", start, request_of(options, search=True), arguments)


def listed(options: argparse.Namespace, folder: str, what: str, more: Sequence[str] = ()) -> bool:
    """Import users' modules; with --list print what there is and return True, else check the name.

    folder: of the built-in files; what: one of them, in words; more: further names.
    """
    if options.json and not options.list:
        raise UserError("--json: goes with --list")
    if options.list and options.name:
        raise UserError(f"--list lists everything; leave out {options.name}")
    import_modules(options.modules)
    if options.list:
        with no_collector():
            from fedbench.cli.listing import print_list

            print_list(folder, options.out, as_json=options.json)
        return True
    if not options.name:
        raise UserError(f"name a {what}: {', '.join([*built_in(folder), *more])}, or a YAML file")
    if options.name not in more:
        path_of(folder, options.name, what)  # a typing error is answered before anything is imported
    return False


def conduct(name: str, start: Callable[[Request], Job], request: Request, arguments: Sequence[str]) -> int:
    """Carry out the job of a command, in a supervised child process if this is one; return the exit code."""
    again = command_line([*invocation(name, arguments), *(a for a in arguments if a != "--fresh")])

    def work(process: Process) -> int:
        try:
            outcome = carry_out(start, request, f"go on with: {again}", process)
        except Unfinished as error:
            say(f"error: {one_line(error)}", sys.stderr)
            return FAILED
        if outcome.left:
            say(f"{outcome.left} left; go on with: {again}", sys.stderr)
            return 128 + outcome.stopped if outcome.stopped else FAILED
        return FAILED if outcome.failed else DONE

    if request.dry_run or not is_command():
        return work(Process())
    return supervised(work, request.options.max_failures, again)


STUDY = Command(
    "run a study and show its tables",
    "fedbench study fixed_gamma",
    "Run a study and show its tables.",
    add_study_command,
    run_study,
)
SEARCH = Command(
    "find the best settings of methods",
    "fedbench search fixed_gamma --trials 12",
    "Search for the best settings of methods.",
    add_search_command,
    run_search,
)
