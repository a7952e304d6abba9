"""Pages in a real browser: Debian's Chromium, without a window. Skipped where there is none."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fedbench.render.report import make_report
from fedbench.store.store import Store
from tests.analysis.helpers import fill
from tests.render.test_pages import EVIL, accuracy, code_as_labels, mine

NARROW = {"width": 390, "height": 800}
Opened = Callable[..., Any]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("out")
    study, store = mine(folder), Store(folder)
    fill(store, study, accuracy)
    return make_report(study, store).files[-1]


def column(page: Any, number: int) -> list[str]:
    """What a column of the first table shows, from top to bottom."""
    return [cell.inner_text() for cell in page.locator(f"#table-1 tbody td:nth-child({number})").all()]


def test_a_table_sorts_by_any_column_also_by_keyboard(opened: Opened, report: Path) -> None:
    page = opened(report)
    assert column(page, 1) == ["100", "1"]
    page.locator("#table-1 th button").first.click()
    page.locator("#table-1 th button").first.click()
    assert column(page, 1) == ["1", "100"]
    assert page.locator("#table-1 th").first.get_attribute("aria-sort") == "ascending"
    page.locator("#table-1 th button").first.focus()
    page.keyboard.press("Enter")
    assert column(page, 1) == ["100", "1"]
    page.locator("#table-1 th button").nth(3).click()
    assert column(page, 4)[-1] in ("failed", "diverged")  # words are below numbers


def test_a_table_switches_between_what_it_shows(opened: Opened, report: Path) -> None:
    page = opened(report)
    assert column(page, 3)[0] == "60.90 ± 0.10"
    page.locator("select[data-views=table-1]").select_option("difference")
    assert column(page, 3)[0] == "+10.00 [+10.00, +10.00]"
    page.locator("select[data-views=table-1]").select_option("interval")
    assert column(page, 3)[0] == "60.90 [60.65, 61.15]"
    cell = page.locator("#table-1 tbody td:nth-child(3)").first
    colour = "node => getComputedStyle(node).backgroundColor"
    before = cell.evaluate(colour)
    page.get_by_label("colour by value").check()
    assert cell.evaluate(colour) != before


def test_lines_can_be_shown_over_their_whole_range(opened: Opened, tmp_path: Path) -> None:
    study, store = mine(tmp_path), Store(tmp_path)
    rows = [f"{t},{0.1 if t == 1 else 0.8 + 0.001 * t},1.0" for t in range(1, 41)]
    fill(store, study, lambda labels, seed: 0.5, rounds="\n".join(["round,test_accuracy,test_loss", *rows, ""]))
    page = opened(make_report(study, store).files[-1])
    chart = page.locator("svg.lines").first
    seen = "nodes => nodes.filter(node => node.getBoundingClientRect().width).map(node => Number(node.textContent))"

    def low() -> float:
        return float(min(chart.locator("text[text-anchor=end]").evaluate_all(seen)))

    assert low() > 50
    page.get_by_label("the whole range").check()
    assert low() <= 20
    box = chart.bounding_box()
    chart.hover(position={"x": box["width"] * 52 / 380 + 2, "y": box["height"] * 0.8})
    assert page.locator("#tip").inner_text().endswith("round 1: 10")
    page.get_by_label("the whole range").uncheck()
    assert low() > 50


def test_claims_can_be_read_on_a_narrow_screen(opened: Opened, report: Path) -> None:
    page = opened(report, viewport=NARROW)
    region = page.get_by_role("region", name="claims", exact=True)
    assert region.evaluate("node => node.scrollWidth <= node.clientWidth"), "nothing is beyond the edge"
    for cell in region.locator("tbody tr").first.locator("td").all():
        box = cell.bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= 390


def test_a_table_can_be_copied(opened: Opened, report: Path) -> None:
    page = opened(report, permissions=["clipboard-read", "clipboard-write"])
    for kind, ending in (("CSV", "csv"), ("Markdown", "md"), ("LaTeX", "tex")):
        page.get_by_role("button", name=f"copy {kind}").click()
        page.locator(f"[data-copy=table-1-{kind}]", has_text="copied").wait_for()
        copied = page.evaluate("navigator.clipboard.readText()")
        assert copied.strip() == report.with_name(f"table.{ending}").read_text().strip()


def test_lines_tell_their_values_and_can_be_switched_off(opened: Opened, report: Path) -> None:
    page = opened(report)
    chart = page.locator("svg.lines").first
    box = chart.bounding_box()
    chart.hover(position={"x": box["width"] - 15, "y": 30})
    assert page.locator("#tip").inner_text().endswith("round 2: 20")
    page.mouse.move(0, 0)
    assert page.locator("#tip").is_hidden()
    chart.focus()
    page.keyboard.press("ArrowLeft")  # on from where the pointer was
    assert page.locator("#tip").inner_text() == "gamma 1, round 1: 10"
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    assert page.locator("#tip").inner_text() == "gamma 0.9, round 2: 20"
    line = chart.locator("[data-label='gamma 0.9'] .curve")
    assert line.is_visible()
    button = page.locator("#figures .legend button", has_text="gamma 0.9")
    button.focus()
    page.keyboard.press("Space")
    assert line.is_hidden() and button.get_attribute("aria-pressed") == "false"
    button.click()
    assert line.is_visible()


def test_dots_tell_what_they_are(opened: Opened, report: Path) -> None:
    page = opened(report)
    dot = page.locator("#cost g.dot").first
    dot.focus()
    assert page.locator("#tip").inner_text() == dot.get_attribute("data-text")


def test_dark_is_dark_and_light_is_light(opened: Opened, report: Path) -> None:
    light, dark = (
        opened(report, color_scheme=scheme).evaluate("getComputedStyle(document.body).backgroundColor")
        for scheme in ("light", "dark")
    )
    assert light == "rgb(255, 255, 255)"
    assert all(int(part) < 50 for part in dark.removeprefix("rgb(").removesuffix(")").split(","))


def test_a_narrow_screen_does_not_scroll_sideways(opened: Opened, report: Path) -> None:
    page = opened(report, viewport=NARROW)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_everything_that_can_be_used_is_reached_by_keyboard(opened: Opened, report: Path) -> None:
    page = opened(report)
    wanted = page.locator("a[href], button, select, input, summary, [tabindex='0']").count()
    page.evaluate("window.seen = new Set(); document.addEventListener('focusin', e => window.seen.add(e.target))")
    for _ in range(wanted + 5):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.matches('details:not([open]) > summary')"):
            page.keyboard.press("Enter")  # opens it
    assert page.evaluate("window.seen.size") >= wanted


def test_labels_that_are_code_stay_words(opened: Opened, tmp_path: Path) -> None:
    page = opened(code_as_labels(tmp_path), viewport=NARROW)
    assert page.locator("h1").inner_text() == f"{EVIL} [red]"
    assert column(page, 1)[:2] == [EVIL, "[red]"]
    page.locator("#figures svg.lines").last.focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("#tip").inner_text() == f"{EVIL}: 50"
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.locator("[onload]").count() == 0


def test_a_page_can_be_printed(opened: Opened, report: Path) -> None:
    page = opened(report)
    page.emulate_media(media="print")
    assert page.locator("nav").is_hidden() and page.locator("#table-1").is_visible()
    assert page.locator("#trials .scroll").evaluate("node => getComputedStyle(node).maxHeight") == "none"
