"""The sheets of a study: its tables, claims and variance components as texts, with captions and remarks."""

from collections.abc import Iterable, Mapping, Sequence
from math import floor, log10

from fedbench.analysis.beside import below, beside
from fedbench.analysis.best import line_of
from fedbench.analysis.claims import Finding
from fedbench.analysis.statistics.variance import Component
from fedbench.analysis.tables import Place
from fedbench.analysis.variance import REST, VarianceRow, percent
from fedbench.base.settings import in_words
from fedbench.metrics import METRICS
from fedbench.render.sheets import MEANINGS, Entry, Sheet, over_seeds
from fedbench.specs.expand import Cell, ScaledStudy
from fedbench.specs.names import Beside, heads, named, short, shown_as, text_label
from fedbench.specs.paper import Key, row_keys
from fedbench.specs.parts import TableSpec

COST_DIGITS = 3
MORE_DIGITS = 2  # than a metric's own, where its spread is very small
DRAW_MARK = "†"
OUTSIDE_MARK = "‡"  # numbers that rest on seeds outside of the study's plan, too


def table_sheet(study: ScaledStudy, name: str, filled: Sequence[Place]) -> Sheet:
    """Return a table with mean and spread, the paper's number, n where seeds are missing, and the best in bold."""
    table = study.study.tables[name]
    further = beside(table, filled)
    noted = [note_line(table, head, notes) for head, notes in below(table, filled).items()]
    columns = dict.fromkeys(place.column for place in filled)
    rows: dict[Key, dict[Key, str | Entry]] = {}
    counted, star = lacks_seeds(filled), "*" if study.changed else ""
    for place in filled:
        mark = draw_mark(study, place.cells) + outside_mark(study, place.values)
        entry = _entry(study, place, star, counted, mark)
        rows.setdefault(place.row, {})[place.column] = entry
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
        caption=without_underscores(f"{caption(study, name)}, {'; '.join(_reading(study, table, filled))}"),
        remarks=noted,
    )


def note_line(table: TableSpec, head: str, notes: Mapping[Key, str | float | None]) -> str:
    """Return one line with the notes on the columns of a table."""
    return f"{head}: {'; '.join(f'{_head(table, key)} {_text(_beside(value))}' for key, value in notes.items())}"


def _text(cell: str | Entry) -> str:
    return cell.text() if isinstance(cell, Entry) else cell


def claims_sheet(study: ScaledStudy, findings: Sequence[Finding]) -> Sheet:
    """Return the claims with their verdicts, evidence and remarks."""
    heads = ["verdict", "claim", "at", "evidence"]
    rows = [[f.decision, f.says, f.at, "; ".join([f.evidence, *f.remarks])] for f in findings]
    return Sheet(
        heads, rows, f"{study.study.title}{note(study)}: claims, with 95 % intervals and q values over all of them"
    )


def variance_sheet(study: ScaledStudy, rows: Sequence[VarianceRow]) -> Sheet:
    """Return the standard deviation of a trial, and the share that each source has in its variance, for every row."""
    spec = study.study.variance
    assert spec is not None, "rows come from a study that asks for them"
    sources = list(dict.fromkeys(share.source for row in rows for share in row.shares))
    sources = [*(name for name in sources if name != REST), *([REST] if REST in sources else [])]
    table = []
    for row in rows:
        shares = {share.source: _share(share.component) for share in row.shares}
        cells = [shares.get(name, "-") for name in sources]
        std = Entry(f"{row.std:.2f}") if row.std is not None else "-"
        table.append([*map(text_label, row.labels.values()), row.what, std, *cells])
    remarks = [f"{row.sentence}." for row in rows if row.sentence]
    remarks += [f"{row.name}, {row.what}: {row.problem}." for row in rows if row.problem]
    caption = f"{study.study.title}{note(study)}: share of the variance by source (%), with 95 % intervals"
    head = [*heads(spec.rows), "quantity", "standard deviation", *sources]
    return Sheet(head, table, caption, remarks)


def _share(part: Component) -> Entry:
    if part.low == part.high:
        return Entry(percent(part.share))
    return Entry(percent(part.share), rest=f" [{percent(part.low)}, {percent(part.high)}]")


def _head(table: TableSpec, column: Key) -> str:
    """Return the head of a column: its labels on the column axes or, without any, what its cells contain."""
    if not table.columns:
        return _label(table) if len(table.metrics) == 1 else "mean"
    return ", ".join(named(axis, label) for axis, label in zip(table.columns, column, strict=True))


def _row_texts(table: TableSpec, row: Key) -> list[str]:
    """Return the labels of a row; a metric is written by its label."""
    texts = [text_label(label) for label in row]
    return [*texts[:-1], METRICS.get(texts[-1]).label] if len(table.metrics) > 1 else texts


def _beside(value: str | float | None) -> str | Entry:
    """Return a note on a row as it is shown: a word, or a cost."""
    if isinstance(value, str):
        return value
    return "-" if value is None else Entry(f"{value:.{COST_DIGITS}f}")


def draw_mark(study: ScaledStudy, cells: Iterable[Cell]) -> str:
    """Return the mark of cells whose numbers depend on one draw of the proxy set for each seed, else an empty text.

    A study that varies the draw needs no mark: it shows how much depends on the draw.
    """
    if len(study.proxy_draws) > 1:
        return ""
    configs = (config for cell in cells for config in cell.trials.values())
    return DRAW_MARK if any(config.uses_proxy for config in configs) else ""


def outside_mark(study: ScaledStudy, seeds: Iterable[int]) -> str:
    """The mark of numbers that rest on seeds outside of the study's plan; empty for any others."""
    return OUTSIDE_MARK if set(study.outside).intersection(seeds) else ""


def _entry(study: ScaledStudy, place: Place, star: str, counted: bool, mark: str) -> str | Entry:
    """Return the numbers of a cell as texts, or a word that says why there are none.

    star: follows the paper's number; counted: whether to show the number of seeds; mark: follows our number.
    """
    numbers = place.numbers
    if numbers["mean"] is None and numbers.get("finished"):
        return Entry(f"{numbers['reached']} of {numbers['finished']}", rest=" reached it")
    if numbers["n"] == 0:
        return next((word for word in ("diverged", "failed") if numbers[word]), "-")
    digits, shown = digits_of(place), study.study.show
    missing = f" (n={numbers['n']})" if counted else ""
    whole = METRICS.get(place.metric).digits
    paper = f"{numbers['paper']:z.{whole}f}{star}" if numbers["paper"] is not None else ""
    std = f"{numbers['std']:z.{digits}f}" if numbers["std"] is not None and shown != "interval" else ""
    low, high = numbers["low95"], numbers["high95"]
    if shown != "spread" and low is not None:
        rest = f" [{low:z.{digits}f}, {high:z.{digits}f}]{missing}{f' (paper {paper})' if paper else ''}"
    else:
        rest = missing + (f" [{paper}]" if paper and shown == "spread" else f" (paper {paper})" if paper else "")
    return Entry(f"{numbers['mean']:z.{digits}f}", std, rest, place.best, mark)


def digits_of(place: Place) -> int:
    """Return how many decimals a place's numbers have: as many as the first two digits of the spread take.

    They are no more than the metric's own, unless the spread would then look like zero.
    """
    own, std = METRICS.get(place.metric).digits, place.numbers["std"]
    if not std or round(std, own + MORE_DIGITS) == 0:
        return own
    first = -floor(log10(std))  # the decimal of the first digit of the spread that is not zero
    return min(max(min(first + 1, own), first, 0), own + MORE_DIGITS)


def without_underscores(text: str) -> str:
    """Return a caption for a paper, with the names of settings and studies in words."""
    return text.replace("_", " ")


def caption(study: ScaledStudy, name: str) -> str:
    """Return what a table shows: the study, its scale, and what its cells contain."""
    return f"{study.study.title}{note(study)}: {_label(study.study.tables[name])}"


def _label(table: TableSpec) -> str:
    """Return what the cells contain; several metrics are named in the rows."""
    label = METRICS.get(table.metrics[0]).label if len(table.metrics) == 1 else f"{len(table.metrics)} metrics"
    return shown_as(label, table.show)


def _reading(study: ScaledStudy, table: TableSpec, filled: Sequence[Place]) -> list[str]:
    """Return how to read the cells: what the spread is, over which seeds, and what brackets and bold mean."""
    baseline = ", ".join(named(axis, label) for axis, label in study.study.baseline.items())
    several = any(place.numbers["std"] is not None for place in filled)
    lines = [_over_seeds(study, shown=study.study.show if several else None)]
    lines += ["intervals do not allow for the looks at the results, verdicts do"] if study.plan.decides else []
    outside = ", ".join(map(str, study.outside))
    lines += [f"{OUTSIDE_MARK} rests on seeds outside of the study's plan, too ({outside})"] if outside else []
    lines += [f"against {baseline} of the same seed"] if table.show != "value" else []
    lines += ["n: seeds that have a number"] if lacks_seeds(filled) else []
    lines += dict.fromkeys(basis for place in filled for basis in place.bases)
    ours = study.study.show == "spread" and any(place.numbers["paper"] is not None for place in filled)
    lines += ["in brackets the paper's number"] if ours else []
    along = {"row": "of each row", "column": "of each column"}.get(table.best or "", f"along {short(table.best or '')}")
    common = ", by the seeds that all have" if lacks_seeds(filled) else ""
    lines += [f"in bold the best {along}{common}{_alike(table, filled)}"] if any(p.best for p in filled) else []
    one_draw = any(place.numbers["n"] and draw_mark(study, place.cells) for place in filled)
    return [*lines, f"{DRAW_MARK} depends on the draw of the proxy set; see spread_sources"] if one_draw else lines


def _alike(table: TableSpec, filled: Sequence[Place]) -> str:
    """Return what the caption says about bold cells beside the best ones; empty if there are none."""
    means: dict[tuple[str, Key], set[float]] = {}
    for place in filled:
        if place.best:
            means.setdefault((place.metric, line_of(table, place)), set()).add(place.numbers["mean"])
    several = any(len(found) > 1 for found in means.values())
    return ", and all that the test of the claims does not tell apart from it" if several else ""


def lacks_seeds(filled: Iterable[Place]) -> bool:
    """Return whether cells have numbers for different seeds; every cell then shows how many seeds it has."""
    places = list(filled)
    some = any(0 < place.numbers["n"] < place.numbers["seeds"] for place in places)
    return some or len({place.numbers["seeds"] for place in places}) > 1


def _over_seeds(study: ScaledStudy, *, shown: Beside | None) -> str:
    """Return of which seeds a number is the mean, or of how many, where cells have different ones."""
    if len(study.counts) == 1:
        return over_seeds(list(study.cells[0].trials), shown=shown)
    meaning = MEANINGS[shown] if shown else ""
    return f"mean{meaning} over {study.counts[0]} to {study.counts[-1]} seeds, with {study.plan.text}"


def note(study: ScaledStudy) -> str:
    """Return what follows a study's title: the scale, the number of rounds, and what options changed or picked."""
    rounds = sorted({config.rounds for config in study.trials.values()})
    length = f"{rounds[0]}" if len(rounds) == 1 else f"{rounds[0]} to {rounds[-1]}"
    star = "; * the paper's number, for its own settings" if study.scale == "paper" and study.study.reference else ""
    changed = f"; changed: {', '.join(in_words(study.changed))}{star}" if study.changed else ""
    picked = f"; only {', '.join(study.picked)}" if study.picked else ""
    return f" (scale {study.scale}, {length} rounds{score_note(study)}{changed}{picked})"


def score_note(study: ScaledStudy) -> str:
    """Return over how many last rounds trials are scored."""
    scored = sorted({study.score.over(config.rounds) for config in study.trials.values()})
    return f", scored over the last {' to '.join(map(str, dict.fromkeys((scored[0], scored[-1]))))}"
