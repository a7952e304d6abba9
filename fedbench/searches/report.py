"""A search's output folder: best settings, all suggestions, plots, and tuned against default."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from fedbench.analysis.statistics.spread import Spread, paired, spread
from fedbench.analysis.trials import stored_trials
from fedbench.base.files import write_text
from fedbench.base.settings import dump_yaml
from fedbench.config import TrialConfig
from fedbench.render.report import make_report
from fedbench.render.sheets import Entry, Sheet, latex, markdown, over_seeds
from fedbench.render.study import StudyReport, Tuning, folder_of
from fedbench.searches.plots import draw_search
from fedbench.searches.result import DEFAULT, METHOD, TUNED, result_study
from fedbench.searches.suggestions import RESULT, Suggestions, outcome
from fedbench.specs.expand import ScaledStudy
from fedbench.specs.space import ScaledSpace
from fedbench.store.store import Store, StoredTrial

SETTINGS = "tuned settings"  # a column's head
COVERAGE = [
    "parameters: how many were searched; methods with the same number of suggestions are not tuned equally well "
    "if one has more parameters"
]
RUNS = ("default", "tuned")


@dataclass(frozen=True)
class Comparison:
    """One method's runs of the table, by seed: with its default settings, and with the best ones found (if any)."""

    label: str
    default: Mapping[int, TrialConfig]
    tuned: Mapping[int, TrialConfig]


@dataclass(frozen=True)
class SearchReport:
    """What was made of a search: the study that it results in, with its report, and how each method was tuned."""

    study: ScaledStudy
    report: StudyReport
    tuning: Tuning
    table: pd.DataFrame

    @property
    def files(self) -> list[Path]:
        """All files that were written."""
        return self.report.files


def result_of(space: ScaledSpace, searches: Sequence[Suggestions], modules: Sequence[str] = ()) -> ScaledStudy:
    """Return the study of a space's methods with their default and with the best settings found so far."""
    best = {search.arm.label: search.arm.settings(search.best.params) for search in searches if search.best}
    return result_study(space, best, modules)


def compare(study: ScaledStudy) -> list[Comparison]:
    """Return the runs of each method that is searched."""
    cells = study.by_labels
    labels = [label for label in study.axes[METHOD] if isinstance(label, str)]
    pairs = {label: [cells.get((label, settings)) for settings in (DEFAULT, TUNED)] for label in labels}
    return [Comparison(label, *(cell.trials if cell else {} for cell in pair)) for label, pair in pairs.items()]


def make_search_report(
    study: ScaledStudy, searches: Sequence[Suggestions], store: Store, *, plots: bool
) -> SearchReport:
    """Write the report of a search's result like that of any study, with best*.yaml, suggestions.csv and tuning.*.

    plots: whether to draw the suggestions.
    """
    space, folder = searches[0].space, folder_of(study, store)
    folder.mkdir(parents=True, exist_ok=True)
    stored = stored_trials(study, store)
    several = len(space.space.methods or {}) > 1  # whatever --only picked: files keep their names
    files = []
    for search in searches:
        if search.best:
            name = f"best-{search.arm.slug}.yaml" if several else "best.yaml"
            files.append(write_text(folder / name, best_yaml(search)))
    files.append(write_text(folder / "suggestions.csv", suggestions_frame(searches).to_csv(index=False)))
    table = comparison_frame(space, searches, compare(study), stored)
    shown = sheet(space, table)
    files.append(write_text(folder / "tuning.csv", table.to_csv(index=False)))
    files.append(write_text(folder / "tuning.md", markdown(shown)))
    files.append(write_text(folder / "tuning.tex", latex(shown, f"search {space.name} {space.scale} {space.variant}")))
    for search in searches if plots else ():
        files += draw_search(search, folder, f"-{search.arm.slug}" if several else "")
    tried = int(table["suggestions"].sum())
    tuning = Tuning(shown, warnings_of(searches, table), tried, _best_row(shown, table), files)
    return SearchReport(study, make_report(study, store, tuning), tuning, table)


def warnings_of(searches: Sequence[Suggestions], table: pd.DataFrame) -> list[str]:
    """Return what must be known before a conclusion is drawn from a search."""
    lines, rows = list[str](), {row["method"]: row for row in table.to_dict("records")}
    for search in searches:
        name, row = search.arm.label, rows[search.arm.label]
        default = search.arm.default(search.space.suggestion(search.arm.fixed)[0])
        if search.best and search.best.params == default:
            lines.append(f"{name}: no suggestion had a better score than the default settings")
        elif pd.notna(row["difference_mean"]) and not row["difference_mean"] > 0:
            means = f"tuned ({row['tuned_mean']:.2f}) is not better than its default ({row['default_mean']:.2f})"
            lines.append(f"{name}: {means} on fresh seeds")
        elif pd.notna(row["difference_low95"]) and not row["difference_low95"] > 0:
            lines.append(f"{name}: tuned cannot be told apart from its default on fresh seeds")
        first = next((trial for trial in search.ended if trial.params == default), None)
        if first and outcome(first) == "stopped":
            after = first.user_attrs[RESULT]["rounds"]
            lines.append(
                f"{name}: the scheduler stopped the default settings after round {after}, "
                "so that no suggestion was compared with them in full (--scheduler none stops nothing)"
            )
    counts = [len(search.settled) for search in searches]
    if min(counts) < max(counts):
        lines.append(f"not a fair comparison: methods have between {min(counts)} and {max(counts)} suggestions")
    return lines


def _best_row(shown: Sheet, table: pd.DataFrame) -> dict[str, str]:
    """The row of the method with the best score, by head; of its default settings, if these are better than tuned."""
    default, tuned = table["default_mean"].astype(float), table["tuned_mean"].astype(float)
    scores = default.where(tuned.isna() | (default > tuned), tuned)
    if not scores.notna().any():
        return {}
    number = int(scores.fillna(-math.inf).to_numpy().argmax())
    texts = [cell.text() if isinstance(cell, Entry) else cell for cell in shown.rows[number]]
    row = {("settings" if head == SETTINGS else head): text for head, text in zip(shown.heads, texts, strict=True)}
    worse = bool(default.iloc[number] > tuned.iloc[number])
    return {**row, "method": f"{row['method']}, default settings", "settings": "-"} if worse else row


def best_yaml(search: Suggestions) -> str:
    """The best settings, as a config of a trial or the base of a study; without the validation split and the seed."""
    space, best = search.space, search.best
    assert best is not None and best.value is not None
    seeds = ", ".join(map(str, space.suggestion_seeds))
    lines = [
        f"# {space.title}: {search.arm.label}, best of {len(search.settled)} suggestions",
        f"# {space.space.metric} {space.shown(best.value)} (mean over seeds {seeds})",
        f"# found: {', '.join(f'{key}={value}' for key, value in best.params.items())}",
        "# The validation split is left out: with the settings chosen, runs train on all training data.",
    ]
    return "\n".join([*lines, dump_yaml(search.arm.settings(best.params))])


def suggestions_frame(searches: Sequence[Suggestions]) -> pd.DataFrame:
    """One row a suggestion: its outcome, score, rounds and time, and a column for every parameter."""
    rows = []
    for search in searches:
        for trial in search.trials:
            if trial.state.is_finished():
                result = {"outcome": "interrupted", **trial.user_attrs.get(RESULT, {})}
                name: dict[str, Any] = {"method": search.arm.label, "suggestion": trial.number}
                rows.append({**name, **result, **trial.params})
    columns = ["method", "suggestion", "outcome", "score", "rounds", "seconds", "reason"]
    names = dict.fromkeys(p.name for search in searches for p in search.arm.parameters)
    return pd.DataFrame(rows, columns=[*columns, *names])


def comparison_frame(
    space: ScaledSpace,
    searches: Sequence[Suggestions],
    comparisons: Sequence[Comparison],
    stored: Mapping[str, StoredTrial],
) -> pd.DataFrame:
    """One row a method: test accuracy in percent with default and tuned settings, and their paired difference.

    searched: how many parameters it has; a reference has none, and no tuned settings of its own.
    """
    rows, known = [], {search.arm.label: search for search in searches}
    for comparison in comparisons:
        search = known.get(comparison.label)
        default = accuracies(comparison.default, stored)
        tuned = accuracies(comparison.tuned, stored) if search else {}
        best = search.best if search else None
        rows.append(
            {
                "method": comparison.label,
                "searched": len(search.arm.parameters) if search else 0,
                "suggestions": len(search.settled) if search else 0,
                **_columns("default", spread(list(default.values()))),
                **_columns("tuned", spread(list(tuned.values()))),
                **_columns("difference", paired(tuned, default)),
                "seeds": len(comparison.default),
                space.space.metric: best.value if best else None,
                "parameters": _values(best.params) if best else "",
            }
        )
    return pd.DataFrame(rows)


def accuracies(runs: Mapping[int, TrialConfig], stored: Mapping[str, StoredTrial]) -> dict[int, float]:
    """Final test accuracy in percent of every seed that is done."""
    trials = {seed: stored.get(config.hash) for seed, config in runs.items()}
    done = {seed: trial for seed, trial in trials.items() if trial and trial.status == "done"}
    return {seed: 100 * trial.summary["final_accuracy"] for seed, trial in done.items()}


def _columns(name: str, sample: Spread) -> dict[str, float | int | None]:
    return {
        f"{name}_mean": sample.mean,
        f"{name}_std": sample.std,
        f"{name}_n": sample.n,
        f"{name}_low95": sample.low,
        f"{name}_high95": sample.high,
    }


def sheet(space: ScaledSpace, table: pd.DataFrame) -> Sheet:
    """The comparison as people read it."""
    rows: list[list[str | Entry]] = [
        [
            row["method"],
            Entry(str(row["searched"])),
            Entry(str(row["suggestions"])),
            _accuracy(row, "default"),
            _accuracy(row, "tuned"),
            _difference(row),
            row["parameters"],
        ]
        for row in table.to_dict("records")
    ]
    return Sheet(
        ["method", "parameters", "tried", "default", "tuned", "difference", SETTINGS],
        rows,
        caption(space, table),
        remarks=COVERAGE if table["searched"].nunique() > 1 else [],
    )


def _accuracy(row: Mapping[str, Any], name: str) -> str | Entry:
    if pd.isna(row[f"{name}_mean"]):
        return "-"
    std, n = row[f"{name}_std"], row[f"{name}_n"]
    missing = f" (n={n})" if n < row["seeds"] else ""
    return Entry(f"{row[f'{name}_mean']:.2f}", f"{std:.2f}" if pd.notna(std) else "", missing)


def _difference(row: Mapping[str, Any]) -> str | Entry:
    if pd.isna(row["difference_mean"]):
        return "-"
    low, high = row["difference_low95"], row["difference_high95"]
    return Entry(f"{row['difference_mean']:+z.2f}", rest=f" [{low:+z.2f}, {high:+z.2f}]" if pd.notna(low) else "")


def _values(parameters: Mapping[str, Any]) -> str:
    return ", ".join(f"{k}={v:.4g}" if isinstance(v, float) else f"{k}={v}" for k, v in parameters.items())


def caption(space: ScaledSpace, table: pd.DataFrame) -> str:
    """What the table shows, and how its cells are to be read."""
    several = len(space.seeds) > 1
    reading = [over_seeds(space.seeds, shown="spread" if several else None)]
    reading += ["difference: tuned minus default, seed by seed, with its 95 % interval"] if several else []
    partly = any(((table[f"{name}_n"] > 0) & (table[f"{name}_n"] < table["seeds"])).any() for name in RUNS)
    reading += ["n: seeds that are done, where not all are"] if partly else []
    scored = space.space.score.over(next(iter(space.final(space.arms[0].fixed).values())).rounds)
    return f"{space.title}: test accuracy (%), scored over the last {scored} rounds, {'; '.join(reading)}"
