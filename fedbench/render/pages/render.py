"""Render pages as HTML: one file that opens from anywhere and loads nothing from the network."""

import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedbench.base.files import write_text
from fedbench.render.pages import charts
from fedbench.render.style import COLOURS, SHAPES, STROKES, number_of

if TYPE_CHECKING:
    from jinja2 import Environment

HERE = Path(__file__).parent / "templates"
MOST_BYTES = 3_000_000
RELOAD = 5  # seconds after which the page of something that runs looks for news


@cache
def _templates() -> "Environment":
    """Return the templates; everything that is inserted into them is escaped."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    made = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    made.globals |= {
        "colour": lambda slot: slot % len(COLOURS),
        "stroke": lambda slot: STROKES[number_of(slot)],
        "shape": lambda slot: SHAPES[number_of(slot)],
        "size": {"width": charts.WIDTH, "height": charts.HEIGHT, "left": charts.LEFT, "bottom": charts.BOTTOM}
        | {"right": charts.RIGHT, "top": charts.TOP},
        "style": (HERE / "page.css").read_text(),
        "script": (HERE / "page.js").read_text(),
    }
    return made


def html(template: str, reload: int = 0, **content: Any) -> str:
    """Return a page as HTML. reload: seconds after which it reloads itself; 0 for never."""
    written = int(time.time()) if reload else 0  # a report made again has the same bytes
    return _templates().get_template(template).render(reload=reload, written=written, **content)


def rendered(template: str, path: Path, reload: int = 0, **content: Any) -> Path:
    """Write a page atomically and return its path."""
    return write_text(path, html(template, reload, **content))
