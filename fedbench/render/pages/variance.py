"""Variance components for a page: the sentences, the table, and the picture of stacked bars."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fedbench.analysis.variance import VarianceRow
from fedbench.render.sheets import Entry
from fedbench.render.variance import VARIANCE_STEM, variance_sheet
from fedbench.specs.expand import ScaledStudy


@dataclass(frozen=True)
class PageVariance:
    """Variance components as texts.

    numeric: whether a column has numbers; remarks: the sentences, and why a row has no components; picture: the bars,
    as a data address, or an empty text.
    """

    caption: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    numeric: Sequence[bool]
    remarks: Sequence[str]
    picture: str


def page_variance(
    study: ScaledStudy, rows: Sequence[VarianceRow], folder: Path, *, pictures: bool
) -> PageVariance | None:
    """What a page shows of the components, None if the study has none; pictures: whether the drawn bars count."""
    if not rows:
        return None
    sheet, file = variance_sheet(study, rows), folder / f"{VARIANCE_STEM}.png"
    picture = ""
    if pictures and file.is_file():
        picture = f"data:image/png;base64,{base64.b64encode(file.read_bytes()).decode()}"
    texts = sheet.texts(Entry.text)
    return PageVariance(sheet.caption, sheet.heads, texts, sheet.numeric, sheet.remarks, picture)
