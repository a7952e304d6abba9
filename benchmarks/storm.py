"""A study under strikes: python benchmarks/storm.py [--strikes 20] [--seed 0] [--only KIND ...].

A small study runs as a command of its own. At moments drawn from the seed something befalls it: processes are killed
or stopped, its disk is full, its clock wrong, its files damaged (`storms/kinds.py` has them all). If the command
ends, it is started again, as a user would, until the study is done. Then its table and cells, time and memory
aside, must have the bytes of an undisturbed run, no process and no temporary file may be left, every command must have
ended with a documented exit code, and nothing may have hung for more than a minute.
"""

import argparse
import random
import sys
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from storms.command import LOOK_SECONDS, Study, scratch_folder
from storms.kinds import KINDS, Kind, Strike

HUNG = 60.0  # seconds without a sign of life
SPAN = 0.8  # of the time of an undisturbed study, at most, from a command's start or a strike to the next strike
STARTS = 40  # of one study; it should be done by then
NOISE = "Traceback (most recent call last)"
FAILED, ADVICE = 1, "go on with: "  # the exit code of a command that could not do all, and what it then says


@dataclass
class Row:
    """What came of the strikes of a kind."""

    kind: str
    strikes: int = 0
    ended: int = 0
    studies: int = 0
    longest: float = 0.0
    waited_after: str = ""
    unequal: int = 0
    left: list[str] = field(default_factory=list)
    codes: list[str] = field(default_factory=list)
    noise: list[str] = field(default_factory=list)

    @property
    def sound(self) -> bool:
        """Whether all is as it should be."""
        return not (self.unequal or self.left or self.codes or self.noise or self.longest > HUNG)

    def cells(self) -> list[str]:
        """Its cells in the table."""
        equal = f"{self.studies - self.unequal} of {self.studies}"
        went_on = max(0, self.strikes - self.ended)
        return [
            self.kind,
            *map(str, (self.strikes, self.ended, went_on, equal, len(self.left), len(self.codes))),
            f"{self.longest:.0f} s",
        ]


HEAD = [
    "kind",
    "strikes",
    "ended and started again",
    "went on by itself",
    "result equal",
    "leftovers",
    "wrong exit codes",
    "longest wait",
]


@dataclass(frozen=True)
class Storm:
    """How large the study is, where its logs are kept, and what its results should be."""

    rounds: int = 40
    seeds: int = 1
    keep: Path | None = None
    wanted: tuple[str, str] | None = None
    span: float = 25.0  # seconds

    def calm(self) -> "Storm":
        """The study without any strike: what its results should be."""
        with scratch_folder() as scratch:
            study, began = Study(Path(scratch), self.rounds, self.seeds), time.monotonic()
            if run(study):
                raise SystemExit(f"the study failed before any strike:\n{study.said}")
            return replace(self, wanted=study.results(), span=SPAN * (time.monotonic() - began))

    def strike(self, name: str, kind: Kind, strikes: int, rng: random.Random) -> Row:
        """Strike so many times: several times a study, and as many studies as that takes."""
        row = Row(name)
        while row.strikes < strikes:
            with scratch_folder() as scratch, kind.place(Path(scratch, "out")) as place:
                study = Study(Path(scratch), self.rounds, self.seeds, place.options)
                self.weather(study, place.strike, row, strikes, rng, kind.codes)
                if kind.late:
                    run(study)
                self.judge(study, row)
        return row

    def weather(
        self, study: Study, strike: Strike, row: Row, strikes: int, rng: random.Random, codes: tuple[int, ...]
    ) -> None:
        """One study, struck until it is done; the command is started again as often as it ends before that.

        codes: the exit codes that it may have then, besides 1 with a line that says how to go on.
        """
        for starts in range(STARTS):
            row.ended += starts > 0
            study.start()
            due = time.monotonic() + rng.uniform(0, self.span)
            while (code := study.look()) is None:
                if row.strikes < strikes and time.monotonic() >= due and strike(study, rng):
                    row.strikes += 1
                    due = time.monotonic() + rng.uniform(0, self.span)
                time.sleep(LOOK_SECONDS)
            if code == 0:
                return
            if code not in codes and not (code == FAILED and ADVICE in study.said_last):
                row.codes.append(f"exit code {code} after: {study.said_last.strip().splitlines()[-1:]}")

    def judge(self, study: Study, row: Row) -> None:
        """Hold what is there now against what should be."""
        row.studies += 1
        row.unequal += study.results() != self.wanted
        if study.longest > row.longest:
            row.longest, row.waited_after = study.longest, study.waited_after
        row.left += study.left_over()
        row.noise += [line for line in study.said.splitlines() if NOISE in line]
        if self.keep:
            self.keep.mkdir(parents=True, exist_ok=True)
            (self.keep / f"{row.kind}-{row.studies}.log").write_text(study.said)


def run(study: Study) -> int:
    """Run the command to its end, and leave it alone meanwhile; returns its exit code."""
    study.start()
    while (code := study.look()) is None:
        time.sleep(LOOK_SECONDS)
    return code


def table(rows: list[Row]) -> str:
    """All rows, as Markdown."""
    lines = [HEAD, ["---"] * len(HEAD), *(row.cells() for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> int:
    """Run it; returns the exit code."""
    options = argparse.ArgumentParser(description="A study under strikes.", allow_abbrev=False)
    options.add_argument("--strikes", type=int, default=20, metavar="N", help="of each kind (20)")
    options.add_argument("--seed", type=int, default=0, metavar="N", help="of the moments and victims (0)")
    options.add_argument("--only", action="append", choices=KINDS, metavar="KIND", help=f"one of: {', '.join(KINDS)}")
    options.add_argument("--keep", type=Path, metavar="DIR", help="where to keep what the commands say")
    chosen = options.parse_args()
    kinds = {name: KINDS[name] for name in chosen.only or KINDS}
    for name in [name for name, kind in kinds.items() if kind.missing()]:
        print(f"{name}: left out, it {kinds.pop(name).missing()}")
    storm, rows = Storm(keep=chosen.keep).calm(), []
    for name, kind in kinds.items():
        rows.append(storm.strike(name, kind, chosen.strikes, random.Random(f"{chosen.seed} {name}")))
        print(", ".join(f"{head}: {cell}" for head, cell in zip(HEAD, rows[-1].cells(), strict=True)), flush=True)
        for remark in [
            f"longest wait after: {rows[-1].waited_after}",
            *rows[-1].left,
            *rows[-1].codes,
            *rows[-1].noise,
        ]:
            print(f"  {remark}", flush=True)
    print(table(rows))
    return 0 if all(row.sound for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
