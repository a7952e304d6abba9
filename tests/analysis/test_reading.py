"""Reports read every entry once, and their work grows with the number of trials."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from fedbench.analysis.trials import rounds_frame, stored_trials
from fedbench.render.plots.base import by_round
from fedbench.render.report import make_report
from fedbench.specs.expand import ScaledStudy
from fedbench.store import entry as entry_module
from fedbench.store.store import Store
from tests.analysis.helpers import fill
from tests.render.test_pages import mine

ROUNDS = {
    8: "round,test_accuracy,test_loss,gamma\n1,0.1,2.0,\n2,0.2,1.5,0.123456789012345678\n",
    9: "round,test_accuracy,test_loss\n1,,\n2,0.2,1e-7\n3,0.3,1\n",
    10: "round,test_accuracy,test_loss,gamma,whole\n1,0.1,2.0,1,7\n",
}


def test_a_report_reads_files_once_more_after_their_check_and_parses_all_rounds_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study, store = mine(tmp_path), Store(tmp_path)
    fill(store, study, lambda labels, seed: 0.5)
    reads, parsed = Counter[tuple[str, str]](), list[Any]()
    read_file, read_csv = entry_module.read_file, pd.read_csv

    def counted_read(path: Path) -> bytes:
        reads[path.parent.name, path.name] += 1
        return read_file(path)

    def counted_parse(*arguments: Any, **options: Any) -> pd.DataFrame:
        parsed.append(arguments)
        return read_csv(*arguments, **options)

    fresh = Store(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(entry_module, "read_file", counted_read)
        patched.setattr(pd, "read_csv", counted_parse)
        assert fresh.finished(study.trials) == set(study.trials)
        assert set(reads.values()) == {1}
        make_report(study, fresh)
    assert {hash_ for hash_, _ in reads} == set(study.trials)
    again = {name for (_, name), count in reads.items() if count == 2}
    assert again == {"rounds.csv", "environment.json"}
    assert max(reads.values()) == 2
    assert len(parsed) == 1


def reference(study: ScaledStudy, store: Store) -> pd.DataFrame:
    """All rounds, put together trial by trial."""
    frames = []
    for cell in study.cells:
        for seed, config in cell.trials.items():
            frame = pd.read_csv(store.where(config.hash) / "rounds.csv")
            for position, (key, value) in enumerate({**cell.labels, "seed": seed, "hash": config.hash}.items()):
                frame.insert(position, key, value)
            frames.append(frame)
    return pd.concat(frames, ignore_index=True)


@pytest.mark.parametrize(
    "labels", [["a", "b"], [1, 0.5], [1, 2], [True, False], [True, 1], [None, 1], [None, 0.5], ["a", 1], ["a", None]]
)
def test_the_frame_of_all_rounds_is_that_of_tables_put_together(tmp_path: Path, labels: list[Any]) -> None:
    study, store = mine(tmp_path), Store(tmp_path)
    fill(store, study, lambda labels, seed: 0.5, lambda labels, seed: ROUNDS[seed])
    cells = [
        replace(cell, labels={**cell.labels, "more": labels[number % 2]}) for number, cell in enumerate(study.cells)
    ]
    study = replace(study, cells=cells)
    made, wanted = rounds_frame(study, stored_trials(study, store)), reference(study, store)
    pd.testing.assert_frame_equal(made, wanted, check_exact=True)
    assert made.to_csv(index=False) == wanted.to_csv(index=False)


def test_curves_of_trials_with_different_rounds_are_aligned(tmp_path: Path) -> None:
    study, store = mine(tmp_path), Store(tmp_path)
    fill(store, study, lambda labels, seed: 0.5, lambda labels, seed: ROUNDS[seed])
    trials = stored_trials(study, store)
    first, second, _ = (trials[config.hash] for config in study.cells[0].trials.values())
    assert by_round([first, second], "test_accuracy").to_dict("split")["data"] == [[20.0, 20.0]]
    assert by_round([first, first], "test_accuracy").index.tolist() == [1, 2]
    assert by_round([second], "gamma").empty
