"""Remove what is not a result: Ray's folders, half-written entries, checkpoints: fedbench clean."""

import argparse
import shutil
from collections.abc import Sequence
from pathlib import Path

from fedbench.terminal.command import DONE, Parser, run
from fedbench.terminal.options import folder

DISPOSABLE = ("ray", "checkpoints", "damaged", "trials/.new-*")


def parser() -> argparse.ArgumentParser:
    """The options of this command."""
    options = Parser(prog="python -m fedbench.clean", description="Remove all but results: " + ", ".join(DISPOSABLE))
    options.add_argument(
        "--out", type=folder, default=Path("results"), metavar="DIR", help="the results folder (results)"
    )
    options.add_argument("--dry-run", action="store_true", help="only say what would be removed")
    return options


def main(arguments: Sequence[str]) -> int:
    """Run it; returns the exit code."""
    options = parser().parse_args(arguments)
    for path in [path for pattern in DISPOSABLE for path in sorted(options.out.glob(pattern))]:
        size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
        print(f"{path}: {size / 2**20:.1f} MiB")
        if not options.dry_run:
            shutil.rmtree(path)
    return DONE


if __name__ == "__main__":
    run(main)
