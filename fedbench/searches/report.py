"""A search's output folder: best settings, all suggestions, plots, and tuned against default."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from fedbench.analysis.statistics.spread import Spread, paired, spread
from fedbench.base.files import write_text
from fedbench.base.settings import dump_yaml
from fedbench.config import TrialConfig
from fedbench.render.pages.index import SearchSummary, write_index, write_summary
from fedbench.render.sheets import Entry, Sheet, latex, markdown, over_seeds
from fedbench.searches.plots import draw_search
from fedbench.searches.suggestions import RESULT, Suggestions
from fedbench.specs.space import ScaledSpace
from fedbench.store.store import Store, StoredTrial, scored_over

SETTINGS = "tuned settings"  # a column's head
RUNS = ("default", "tuned")


@dataclass(frozen=True)
class Comparison:
    """One method's runs of the table, by seed: with its default settings, and with the best ones found (if any)."""

    label: str
    default: Mapping[int, TrialConfig]
    tuned: Mapping[int, TrialConfig]


@dataclass(frozen=True)
class SearchReport:
    """What was made of a search."""

    table: pd.DataFrame
    files: list[Path]


def compare(searches: Sequence[Suggestions]) -> list[Comparison]:
    """The runs that the table needs, as a study would run them."""
    comparisons = []
    for search in searches:
        best = search.best
        tuned = search.space.final(search.arm.settings(best.params)) if best else {}
        comparisons.append(Comparison(search.arm.label, search.space.final(search.arm.fixed), tuned))
    return comparisons


def final_trials(comparisons: Sequence[Comparison]) -> dict[str, TrialConfig]:
    """All different runs of the table by their hash."""
    return {config.hash: config for c in comparisons for runs in (c.default, c.tuned) for config in runs.values()}


def make_search_report(searches: Sequence[Suggestions], store: Store, folder: Path, *, plots: bool) -> SearchReport:
    """Write best*.yaml, trials.csv, table.csv, table.md, table.tex and, where asked for, the plots."""
    space = searches[0].space
    folder.mkdir(parents=True, exist_ok=True)
    comparisons = compare(searches)
    there = {hash_: trial for hash_ in final_trials(comparisons) if (trial := store.get(hash_))}
    stored = scored_over(there, space.space.score.rounds)
    several = len(space.space.methods or {}) > 1  # whatever --only picked: files keep their names
    files = []
    for search in searches:
        if search.best:
            name = f"best-{search.arm.slug}.yaml" if several else "best.yaml"
            files.append(write_text(folder / name, best_yaml(search)))
    files.append(write_text(folder / "trials.csv", trials_frame(searches).to_csv(index=False)))
    table = comparison_frame(searches, comparisons, stored)
    files.append(write_text(folder / "table.csv", table.to_csv(index=False)))
    shown = sheet(space, table)
    files.append(write_text(folder / "table.md", markdown(shown)))
    files.append(write_text(folder / "table.tex", latex(shown, f"search {space.name} {space.scale} {space.variant}")))
    for search in searches if plots else ():
        files += draw_search(search, folder, f"-{search.arm.slug}" if several else "")
    files.append(write_summary(_summary(space, table, files), folder))
    write_index(store.out)
    return SearchReport(table, files)


def _summary(space: ScaledSpace, table: pd.DataFrame, files: Sequence[Path]) -> SearchSummary:
    """What the index says: the row with the best tuned accuracy (else default), and files but for pictures."""
    shown, best = sheet(space, table), dict[str, str]()
    scores = table["tuned_mean"].fillna(table["default_mean"]).astype(float)
    if scores.notna().any():
        row = shown.rows[int(scores.fillna(-math.inf).to_numpy().argmax())]
        texts = [cell.text() if isinstance(cell, Entry) else cell for cell in row]
        best = {("settings" if head == SETTINGS else head): text for head, text in zip(shown.heads, texts, strict=True)}
    names = [path.name for path in files if path.suffix not in (".png", ".svg", ".pdf")]
    tried = int(table["suggestions"].sum())
    return SearchSummary(space.title, space.name, space.scale, space.variant, tried, best, names)


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


def trials_frame(searches: Sequence[Suggestions]) -> pd.DataFrame:
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
    searches: Sequence[Suggestions], comparisons: Sequence[Comparison], stored: Mapping[str, StoredTrial]
) -> pd.DataFrame:
    """One row a method: test accuracy in percent with default and tuned settings, and their paired difference."""
    rows = []
    for search, comparison in zip(searches, comparisons, strict=True):
        default, tuned = accuracies(comparison.default, stored), accuracies(comparison.tuned, stored)
        best = search.best
        rows.append(
            {
                "method": comparison.label,
                "suggestions": len(search.settled),
                **_columns("default", spread(list(default.values()))),
                **_columns("tuned", spread(list(tuned.values()))),
                **_columns("difference", paired(tuned, default)),
                "seeds": len(comparison.default),
                search.space.space.metric: best.value if best else None,
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
            Entry(str(row["suggestions"])),
            _accuracy(row, "default"),
            _accuracy(row, "tuned"),
            _difference(row),
            row["parameters"],
        ]
        for row in table.to_dict("records")
    ]
    return Sheet(["method", "tried", "default", "tuned", "difference", SETTINGS], rows, caption(space, table))


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
