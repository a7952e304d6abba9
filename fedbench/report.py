"""Tables and plots of a study again, from the store alone: python -m fedbench.report fixed_gamma."""

from collections.abc import Sequence

from fedbench.cli import DONE, Parser, run
from fedbench.errors import UserError
from fedbench.options import add_study_options, chosen_study
from fedbench.plugins import import_modules
from fedbench.results.report import make_report
from fedbench.results.store import Store
from fedbench.study import show, warn


def main(arguments: Sequence[str]) -> int:
    """Run it; returns the exit code."""
    parser = Parser(prog="python -m fedbench.report", description="Make a study's tables and plots from stored trials.")
    parser.add_argument("study", metavar="NAME|FILE", help="a built-in study, or a YAML file of your own")
    add_study_options(parser)
    options = parser.parse_args(arguments)
    import_modules(options.modules)
    study, store = chosen_study(options), Store(options.out)
    if not store.trials.is_dir():
        raise UserError(f"--out {options.out}: holds no results; run python -m fedbench.study {options.study} first")
    report = make_report(study, store)
    warn(store)
    show(study, report)
    missing = len(study.trials) - len(report.trials)
    if missing:
        print(f"{missing} of {len(study.trials)} trials have not been run")
    return DONE


if __name__ == "__main__":
    run(main)
