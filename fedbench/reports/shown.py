"""A study's tables as people read them: labels, captions, and what must be known beside the numbers."""

from collections.abc import Sequence

from fedbench.base.settings import in_words
from fedbench.config import LAST_ROUNDS
from fedbench.reports.beside import beside
from fedbench.reports.claims import Finding
from fedbench.reports.sheets import Entry, Sheet, over_seeds
from fedbench.reports.tables import Place, best_places
from fedbench.specs.expand import ScaledStudy
from fedbench.specs.names import heads, named, short, shown_as, text_label
from fedbench.specs.paper import Key, row_keys
from fedbench.specs.parts import TableSpec
from fedbench.store.metrics import METRICS

COST_DIGITS = 3


def sheet(study: ScaledStudy, name: str, filled: Sequence[Place], remarks: Sequence[str] = ()) -> Sheet:
    """A table with mean and spread, the paper's number, n where seeds are missing, and the best in bold."""
    table = study.study.tables[name]
    best, further = best_places(table, filled), beside(table, filled)
    columns = dict.fromkeys(place.column for place in filled)
    rows: dict[Key, dict[Key, str | Entry]] = {}
    for place in filled:
        rows.setdefault(place.row, {})[place.column] = _entry(place, place.key in best, "*" if study.changed else "")
    return Sheet(
        heads=[*heads(row_keys(table)), *further, *(_head(table, key) for key in columns)],
        rows=[
            [
                *_row_texts(table, row),
                *(_beside(column[row]) for column in further.values()),
                *(entries.get(key, "-") for key in columns),
            ]
            for row, entries in rows.items()
        ],
        caption=f"{caption(study, name)}, {'; '.join(_reading(study, table, filled, bool(best)))}",
        remarks=remarks,
    )


def claims_sheet(study: ScaledStudy, findings: Sequence[Finding]) -> Sheet:
    """The paper's claims with their verdicts and evidence; what must be known of the evidence stands with it."""
    heads = ["verdict", "claim", "at", "evidence"]
    rows = [[f.verdict, f.says, f.at, "; ".join([f.evidence, *f.remarks])] for f in findings]
    return Sheet(heads, rows, f"{study.study.title}{note(study)}: claims, with 95 % intervals")


def _head(table: TableSpec, column: Key) -> str:
    """What a column is called: its point on the column axes; without any, what stands in it."""
    if not table.columns:
        return _label(table) if len(table.metrics) == 1 else "mean"
    return ", ".join(named(axis, label) for axis, label in zip(table.columns, column, strict=True))


def _row_texts(table: TableSpec, row: Key) -> list[str]:
    """A row's labels, a metric by its label."""
    texts = [text_label(label) for label in row]
    return [*texts[:-1], METRICS.get(texts[-1]).label] if len(table.metrics) > 1 else texts


def _beside(value: str | float | None) -> str | Entry:
    """What stands beside a row's numbers: a word, or a cost."""
    if isinstance(value, str):
        return value
    return "-" if value is None else Entry(f"{value:.{COST_DIGITS}f}")


def _entry(place: Place, best: bool, star: str) -> str | Entry:
    """A place's numbers as texts, or a word on why there are none; `star` marks the paper's number."""
    numbers, digits = place.numbers, METRICS.get(place.metric).digits
    if numbers["n"] == 0:
        return next((word for word in ("diverged", "failed") if numbers[word]), "-")
    missing = f" (n={numbers['n']})" if numbers["n"] < numbers["seeds"] else ""
    paper = f" [{numbers['paper']:.{digits}f}{star}]" if numbers["paper"] is not None else ""
    std = f"{numbers['std']:.{digits}f}" if numbers["std"] is not None else ""
    return Entry(f"{numbers['mean']:.{digits}f}", std, missing + paper, best)


def caption(study: ScaledStudy, name: str) -> str:
    """What a table shows: the study, its scale, and what stands in the cells."""
    return f"{study.study.title}{note(study)}: {_label(study.study.tables[name])}"


def _label(table: TableSpec) -> str:
    """What stands in the cells; several metrics are named in the rows."""
    label = METRICS.get(table.metrics[0]).label if len(table.metrics) == 1 else f"{len(table.metrics)} metrics"
    return shown_as(label, table.show)


def _reading(study: ScaledStudy, table: TableSpec, filled: Sequence[Place], marked: bool) -> list[str]:
    """How the cells are to be read: what the spread is, of how many seeds; brackets and bold, where there are any."""
    baseline = ", ".join(named(axis, label) for axis, label in study.study.baseline.items())
    lines = [over_seeds(list(study.cells[0].trials), spread=any(p.numbers["std"] is not None for p in filled))]
    lines += [f"against {baseline} of the same seed"] if table.show != "value" else []
    lines += ["n: seeds that have a number, where not all do"] if any(_partly(place) for place in filled) else []
    lines += ["in brackets the paper's number"] if any(p.numbers["paper"] is not None for p in filled) else []
    along = {"row": "of each row", "column": "of each column"}.get(table.best or "", f"along {short(table.best or '')}")
    return [*lines, f"in bold the best {along}"] if marked else lines


def _partly(place: Place) -> bool:
    return bool(0 < place.numbers["n"] < place.numbers["seeds"])


def note(study: ScaledStudy) -> str:
    """What a reader must know beside the title: the scale, how long runs are, and changed base settings."""
    rounds = sorted({config.rounds for config in study.trials.values()})
    length = f"{rounds[0]}" if len(rounds) == 1 else f"{rounds[0]} to {rounds[-1]}"
    star = "; * the paper's number, for its own settings" if study.scale == "paper" and study.study.reference else ""
    changed = f"; changed: {', '.join(in_words(study.changed))}{star}" if study.changed else ""
    picked = f"; only {', '.join(study.picked)}" if study.picked else ""
    return f" (scale {study.scale}, {length} rounds{score_note(study)}{changed}{picked})"


def score_note(study: ScaledStudy) -> str:
    """What the score is the mean of, where that is not the usual, or covers more than half of a run."""
    shortest = min(config.rounds for config in study.trials.values())
    usual = study.score_rounds == LAST_ROUNDS and 2 * study.score_rounds <= shortest
    return "" if usual else f", scored over the last {min(study.score_rounds, shortest)}"
