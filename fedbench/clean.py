"""Remove what is not a result: Ray's folders, half-written and replaced entries, checkpoints: fedbench clean."""

import argparse
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from fedbench.base.errors import UserError
from fedbench.base.files import RESULTS
from fedbench.base.text import say
from fedbench.cli.command import DONE, Parser, run
from fedbench.cli.options import folder

RETIRED = ".old-"  # before the name of an entry that --fresh has put out of sight
DISPOSABLE = ("ray/*", "checkpoints/*", "leases/*", "damaged/*", "trials/.new-*", "models/.new-*", f"trials/{RETIRED}*")
LIVE_SECONDS = 600.0  # what changed since then may be of a run that goes on


def parser() -> argparse.ArgumentParser:
    """The options of this command."""
    options = Parser(prog="python -m fedbench.clean", description="Remove all but results: " + ", ".join(DISPOSABLE))
    options.add_argument("--out", type=folder, default=RESULTS, metavar="DIR", help="the results folder (results)")
    options.add_argument("--dry-run", action="store_true", help="only say what would be removed")
    return options


def main(arguments: Sequence[str]) -> int:
    """Run it; returns the exit code."""
    options = parser().parse_args(arguments)
    if not options.out.is_dir():
        what = "is a file" if options.out.exists() else "is not there"
        raise UserError(f"--out {options.out}: {what}; name a folder with results")
    for path in [path for pattern in DISPOSABLE for path in sorted(options.out.glob(pattern))]:
        retired = path.name.startswith(RETIRED)
        hash_ = path.name.removeprefix(RETIRED)
        lease = options.out / "leases" / hash_  # of a trial that has checkpoints, renewed while it runs
        files = [file.stat() for file in [path, *path.rglob("*"), lease] if file.exists()]
        age = time.time() - max((file.st_mtime for file in files), default=0.0)
        if age < LIVE_SECONDS:
            say(f"{path}: kept, since a run may be using it (it changed {age:.0f} s ago)")
            continue
        if retired and not _replaced(options.out, hash_):
            say(f"{path}: kept, since it is the only result of its trial; the study runs that again, and removes it")
            continue
        say(f"{path}: {sum(file.st_size for file in files) / 2**20:.1f} MiB")
        if not options.dry_run:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    return DONE


def _replaced(out: Path, hash_: str) -> bool:
    """Whether a trial has a finished entry that is sound."""
    from fedbench.store.store import Store  # it takes a second, and is rarely needed

    return bool(Store(out).finished([hash_]))


if __name__ == "__main__":
    run(main)
