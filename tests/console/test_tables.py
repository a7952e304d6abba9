"""Tables on the screen: readable in any width, without what was not run."""

import pytest

from fedbench.console.tables import show_sheet
from fedbench.render.sheets import Entry, Sheet

HEADS = ["method", *(f"setting {i}" for i in range(12))]


def table(*rows: tuple[str, list[str | Entry]]) -> Sheet:
    return Sheet(HEADS, [[name, *cells] for name, cells in rows], "Caption")


def full(name: str, first: int) -> tuple[str, list[str | Entry]]:
    return name, [Entry(f"{first + i}.25", "0.50", " [61.12]") for i in range(12)]


@pytest.mark.parametrize("width", [60, 80, 200])
def test_no_number_and_no_name_is_broken_in_any_width(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    show_sheet(table(full("Server-FT", 10), full("FedLAW", 40)))
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= width
    words = " ".join(lines).split()
    assert all(words.count(f"{number}.25") == 1 for number in [*range(10, 22), *range(40, 52)])
    assert words.count("[61.12]") == 24
    assert words.count("Server-FT") == words.count("method") == {60: 3, 80: 2, 200: 1}[width]


def test_rows_and_columns_that_were_not_run_are_left_out_but_not_those_that_went_wrong(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    gaps: list[str | Entry] = ["-"] * 12
    show_sheet(table(("FedAvg", [Entry("50.00"), *gaps[1:]]), ("FedLAW", ["diverged", *gaps[1:]]), ("FedDF", gaps)))
    text = capsys.readouterr().out
    assert "50.00" in text
    assert "diverged" in text
    assert "FedDF" not in text
    assert "setting 1 " not in text
    assert "without any number, and left out here: 12 of the rows and columns" in text


def test_a_table_of_which_nothing_was_run_is_shown_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    show_sheet(table(("FedAvg", ["-"] * 12)))
    text = capsys.readouterr().out
    assert "FedAvg" in text
    assert "left out" not in text
