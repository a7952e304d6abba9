"""What a search writes, of suggestions and runs that were made up."""

import warnings
from pathlib import Path
from typing import Any

import pytest

from fedbench.searches.report import compare, make_search_report
from fedbench.searches.suggestions import Suggestions
from fedbench.specs.space import expand_space
from fedbench.store.store import Store
from tests.analysis.helpers import summary
from tests.searches.test_suggestions import SPACE, opened, result

MORE = """
parameters:
  clients.lr: {loguniform: [0.01, 1]}
  clients.batch_size: {choice: [32, 64]}
"""


@pytest.fixture
def search(tmp_path: Path) -> Suggestions:
    """Three suggestions that ran in full."""
    search = opened(tmp_path, SPACE.replace("\nparameters:\n", MORE))
    for score in (0.5, 0.7, 0.6):
        trial = search.study.ask()
        for parameter in search.arm.parameters:
            parameter.suggest(trial)
        search.record(trial, result("done", score, 10))
    return search


def run(store: Store, search: Suggestions, accuracies: dict[str, float]) -> None:
    """The table's runs."""
    (comparison,) = compare([search])
    for name, accuracy in accuracies.items():
        for seed, config in getattr(comparison, name).items():
            with store.entry(config.hash) as folder:
                store.commit(folder, config.hash, "done", None, summary(accuracy + 0.01 * seed))


def report(search: Suggestions, folder: Path, store: Store) -> dict[str, bytes]:
    """All files, by name."""
    with warnings.catch_warnings(action="error"):  # such as a plot that cannot be drawn
        files = make_search_report([search], store, folder, plots=True).files
    assert {path.name for path in files} == {path.name for path in folder.iterdir()}
    return {path.name: path.read_bytes() for path in files}


def test_a_search_has_a_table_for_papers_and_plots_that_are_the_same_when_made_again(
    search: Suggestions, tmp_path: Path
) -> None:
    store, folder = Store(tmp_path / "out"), tmp_path / "report"
    run(store, search, {"default": 0.5, "tuned": 0.6})
    files = report(search, folder, store)
    assert set(files) == {"best.yaml", "trials.csv", "table.csv", "table.md", "table.tex", "report.json"} | {
        f"{plot}.{ending}" for plot in ("history", "slice", "importance") for ending in ("png", "svg", "pdf")
    }
    latex = files["table.tex"].decode()
    reading = r"test accuracy (\%), scored over the last 3 rounds, mean $\pm$ standard deviation over 2 seeds (8, 9)"
    assert rf"\caption{{Mine (scale quick): {reading}; difference: tuned minus default, seed by seed" in latex
    assert r"\label{tab:search-mine-quick}" in latex
    assert r"& 58.50 +- 0.71 & 68.50 +- 0.71 & +10.00 & ~[$+$10.00,~$+$10.00] &" in latex
    assert r"clients.batch\_size=" in latex
    inodes = {path.name: path.stat().st_ino for path in folder.iterdir()}
    held = [path.open("rb") for path in sorted(folder.iterdir())]  # so that no number is given again
    assert report(search, folder, store) == files
    assert all(path.stat().st_ino != inodes[path.name] for path in folder.iterdir())  # written elsewhere, then renamed
    for stream in held:
        stream.close()


def test_a_search_of_one_method_and_one_seed_has_no_spread(search: Suggestions, tmp_path: Path) -> None:
    space = expand_space(str(tmp_path / "mine.yaml"), "quick", changes={}, seeds=[8])
    one = Suggestions(space, space.arms[0], search.storage, search.study)
    store = Store(tmp_path / "out")
    run(store, one, {"default": 0.5})
    made = make_search_report([one], store, tmp_path / "report", plots=False)
    text = (tmp_path / "report" / "table.md").read_text()
    assert text.startswith(
        "Mine (scale quick; only seeds=8): test accuracy (%), scored over the last 3 rounds, one seed (8)\n"
    )
    (row,) = [line for line in text.splitlines() if line.startswith("| fixed_gamma")]
    assert [cell.strip() for cell in row.split("|")][2:6] == ["3", "58.00", "-", "-"]
    assert not [path for path in made.files if path.suffix == ".png"]


def test_no_search_dies_on_one_plot(search: Suggestions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any, **options: Any) -> None:
        raise ZeroDivisionError("no luck")

    monkeypatch.setattr("optuna.importance.get_param_importances", fail)
    with pytest.warns(UserWarning, match="plot 'importance' cannot be drawn .ZeroDivisionError: no luck."):
        made = make_search_report([search], Store(tmp_path / "out"), tmp_path / "report", plots=True)
    assert {path.stem for path in made.files if path.suffix == ".png"} == {"history", "slice"}
