"""Benchmarks are run by hand: here, that they can be."""

import sys
from pathlib import Path

import pytest

from fedbench.store.store import Store

FOLDER = Path(__file__).parent.parent / "benchmarks"


def test_the_benchmark_of_rules_can_measure_every_rule_without_a_proxy_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    import robust_speed

    cohort, server = robust_speed.setting(7)
    names = []
    for name, settings in robust_speed.rules():
        seconds, ratio = robust_speed.measure(settings, cohort, server, 1)
        assert seconds >= 0
        assert ratio >= 0
        names.append(name)
    assert {"fedavg", "scaffold", "qfedavg", "feddisco", "krum nnm"} <= set(names)
    sys.modules.pop("robust_speed")


def test_the_benchmark_of_scale_fills_a_store_with_sound_entries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    import scale

    file, store = tmp_path / "scale.yaml", Store(tmp_path)
    for trials in (20, 100, 1_000, 10_000):
        file.write_text(scale.study_text(trials))
        assert sum(len(cell.trials) for cell in scale.read_study(file).cells) == trials
    file.write_text(scale.study_text(20))
    study = scale.read_study(file)
    scale.fill(study, store)
    assert store.finished(study.trials) == set(study.trials)
    assert len({trial.summary["final_accuracy"] for trial in store.all()}) == 20
    sys.modules.pop("scale")
