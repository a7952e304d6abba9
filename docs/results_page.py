"""What docs and README show of `published/`: tables beside the paper's numbers, claims, plots, machine and time."""

import json
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pandas as pd

from fedbench.analysis.claims import check_claims, counted
from fedbench.analysis.clients import TABLE, clients_table
from fedbench.analysis.parity import parity
from fedbench.analysis.tables import Place, fill_tables
from fedbench.analysis.trials import mixed, stored_trials
from fedbench.render.figures import draw
from fedbench.render.sheets import markdown
from fedbench.render.study_sheets import table_sheet
from fedbench.specs.expand import ScaledStudy, expand_study, load_study, study_files
from fedbench.specs.names import text_label
from fedbench.store.store import Store, StoredTrial

ROOT = Path(__file__).parent.parent
PUBLISHED = ROOT / "published"
PICTURES = ROOT / "docs" / "results"
WITHIN = (0.5, 1.0)  # points
METHODS = ("methods", "paper")  # of the README: study, scale
SHRINKING = ("fixed_gamma", "desk")  # likewise
Table = Callable[[Sequence[str], Iterable[Sequence[str]]], str]  # heads and rows as Markdown


@dataclass(frozen=True)
class Shown:
    """A study at one scale, and its published trials."""

    study: ScaledStudy
    trials: Mapping[str, StoredTrial]

    @property
    def name(self) -> str:
        """Fit for a file."""
        return f"{self.study.name}-{self.study.scale}"

    def tables(self) -> dict[str, list[Place]]:
        """Its tables without the rows and columns that have nothing."""
        return {name: kept for name, filled in fill_tables(self.study, self.trials).items() if (kept := _kept(filled))}

    def diverged(self) -> dict[str, dict[int, str]]:
        """The cells with trials that ended without a number: which seeds, and why."""
        return {
            ", ".join(map(text_label, cell.labels.values())): seeds
            for cell in self.study.cells
            if (seeds := {seed: why for seed, config in cell.trials.items() if (why := self._divergence(config.hash))})
        }

    def _divergence(self, hash_: str) -> str:
        trial = self.trials.get(hash_)
        return (trial.reason or "diverged") if trial and trial.status == "diverged" else ""

    def beside_the_paper(self) -> pd.DataFrame:
        """The cells that both have, with the study's table of each."""
        frame = parity(self.study, fill_tables(self.study, self.trials))
        return frame[frame.ours.notna()]


def _kept(filled: Sequence[Place]) -> list[Place]:
    there = [place for place in filled if any(place.numbers[word] for word in ("n", "diverged", "failed"))]
    rows, columns = {place.row for place in there}, {place.column for place in there}
    return [place for place in filled if place.row in rows and place.column in columns]


@cache
def published() -> tuple[list[Shown], list[str]]:
    """All studies and scales of which something is published, and the names of the studies of which nothing is."""
    store, shown, nothing = Store(PUBLISHED), list[Shown](), list[str]()
    for name in study_files():
        stem, study = load_study(name)
        found = []
        for scale in study.scales:
            expanded = expand_study(stem, study, scale, changes={}, only={}, seeds=None)
            if scale != "tiny" and (trials := stored_trials(expanded, store)):
                found.append(Shown(expanded, trials))
        shown += found
        nothing += [] if found else [name]
    return shown, nothing


def results(table: Table) -> str:
    """All that is published, study by study; then what is not."""
    shown, nothing = published()
    missing = f"## Not published\n\nNothing is published of {', '.join(f'`{name}`' for name in nothing)}."
    return "\n\n".join([*(_section(each, table) for each in shown), missing])


def _section(shown: Shown, table: Table) -> str:
    study = shown.study
    counts = f"{len(shown.trials)} of the {len(study.trials)} trials of `{study.name}` at scale `{study.scale}`"
    said = f"{counts} are published; rows and columns without any are left out."
    parts = [f"## {study.study.title}, scale {study.scale}", said]
    for name, filled in shown.tables().items():
        parts.append(_sheet(shown, name, filled))
    if clients := clients_table(study, shown.trials):
        parts.append(_sheet(Shown(clients.study, shown.trials), TABLE, _kept(clients.filled)))
    if diverged := shown.diverged():
        told = [f"{cell}, seed {seed} ({why})" for cell, seeds in diverged.items() for seed, why in seeds.items()]
        parts.append(f"Diverged: {'; '.join(told)}.")
    pictures = [PICTURES / f"{shown.name}-{plot}.png" for plot in study.study.plots]
    parts += [f"![{path.stem}](results/{path.name})" for path in pictures if path.is_file()]
    return "\n\n".join(filter(None, [*parts, _parity(shown, table), _claims(shown, table), _machine(shown, table)]))


def _sheet(shown: Shown, name: str, filled: Sequence[Place]) -> str:
    return markdown(table_sheet(shown.study, name, filled).with_remarks(mixed(dict(shown.trials)))).strip()


def _parity(shown: Shown, table: Table) -> str:
    frame = shown.beside_the_paper()
    if not len(frame):
        return ""
    heads = ("table", "cell", "ours", "paper", "distance", "gain, ours", "gain, paper", "remark")
    numbers = (("ours", ""), ("paper", ""), ("difference", "+"), ("gain", "+"), ("paper_gain", "+"))
    rows = [
        (row.table, row["cell"], *(_number(row[name], sign) for name, sign in numbers), row.remark)
        for _, row in frame.fillna({"remark": ""}).iterrows()
    ]
    return f"### Beside the paper\n\n{_counted(shown, frame)} A gain is against the baseline.\n\n{table(heads, rows)}"


def distances(shown: Shown, frame: pd.DataFrame) -> tuple[pd.DataFrame, "pd.Series[float]"]:
    """The accuracies beside the paper's, and how far the gains over the baseline are from the paper's gains."""
    points = frame[[_in_points(shown, name) for name in frame.table]]
    return points, (points.gain - points.paper_gain)[points.paper_gain != 0].dropna()


def _counted(shown: Shown, frame: pd.DataFrame) -> str:
    """How many accuracies are near the paper's, and how many gains over the baseline, in a sentence."""
    points, gains = distances(shown, frame)
    parts = [f"of {len(points)} accuracies {_near(points.difference)} points"]
    parts += [f"of {len(gains)} differences to the baseline {_near(gains)}"] if len(gains) else []
    return f"Distance to the paper: {'; '.join(parts)}."


def _near(distances: "pd.Series[float]") -> str:
    return ", ".join(f"{(distances.abs() <= limit).sum()} within {limit}" for limit in WITHIN)


def _in_points(shown: Shown, name: str) -> bool:
    spec = shown.study.study.tables[name]
    return list(spec.metrics) == ["test_accuracy"] and spec.show == "value"


def _claims(shown: Shown, table: Table) -> str:
    findings = check_claims(shown.study, shown.trials)
    rows = [
        (finding.decision, finding.says, finding.at, "; ".join([finding.evidence, *finding.remarks]))
        for finding in findings
        if finding.verdict != "no data"
    ]
    if not findings:
        return ""
    left = len(findings) - len(rows)
    judged = [finding for finding in findings if finding.verdict != "no data"]
    counts = ", ".join(f"{number} {words}" for words, number in counted(judged).items())
    said = f"### Claims\n\n{counts or 'None can be judged'}; {left} more are without data."
    return f"{said}\n\n{table(('verdict', 'claim', 'at', 'evidence'), rows)}" if rows else said


def _machine(shown: Shown, table: Table) -> str:
    """Where and with what the trials were run, and how long that took."""
    places = dict[str, list[StoredTrial]]()
    for trial in shown.trials.values():
        where = json.loads(trial.read("environment.json"))
        versions = ", ".join(f"{name} {where[name]}" for name in ("fedbench", "torch", "numpy", "python"))
        threads = f"{where['threads']} thread{'s' * (where['threads'] != 1)}"
        places.setdefault(f"{where['device_name']}, {threads}|{versions}", []).append(trial)
    rows = []
    for place, trials in sorted(places.items()):
        hours = [sum(t.summary[f"seconds_{part}"] for part in ("train", "server", "eval")) / 3600 for t in trials]
        rows.append((*place.split("|"), str(len(trials)), f"{sum(hours):.1f}", f"{60 * sum(hours) / len(hours):.0f}"))
    heads = ("machine", "versions", "trials", "hours on one worker", "minutes a trial")
    return f"### Machine and time\n\n{table(heads, rows)}"


def distance() -> str:
    """The README's sentence on how far the published numbers of the main table are from the paper's."""
    shown = _only(*METHODS)
    return _counted(shown, shown.beside_the_paper()) if shown else "Nothing of it is published yet."


def shrinking() -> str:
    """The README's table of gammas beside each other, and the claims that can be judged by it."""
    shown = _only(*SHRINKING)
    if not shown:
        return "Nothing of it is published yet."
    _, _, rows = _sheet(shown, "accuracy", shown.tables()["accuracy"]).partition("\n\n")
    judged = [found for found in check_claims(shown.study, shown.trials) if found.verdict != "no data"]
    return "\n".join([rows, "", *(f"    {found.decision:13} {found.says}: {found.evidence}" for found in judged)])


def _only(name: str, scale: str) -> Shown | None:
    return next((each for each in published()[0] if (each.study.name, each.study.scale) == (name, scale)), None)


def _number(value: float | None, sign: str = "") -> str:
    return "" if value is None or value != value else f"{value:{sign}z.2f}"


def draw_pictures() -> None:
    """Draw all plots of what is published, and remove those of what is not any more."""
    PICTURES.mkdir(exist_ok=True)
    made = set()
    with tempfile.TemporaryDirectory() as folder:
        for shown in published()[0]:
            for name, spec in shown.study.study.plots.items():
                files = draw(shown.study, shown.trials, spec, Path(folder) / f"{shown.name}-{name}")
                made |= {PICTURES / path.name for path in files if path.suffix == ".png"}
        for path in made:
            shutil.copyfile(Path(folder) / path.name, path)
    for old in set(PICTURES.glob("*.png")) - made:
        old.unlink()
