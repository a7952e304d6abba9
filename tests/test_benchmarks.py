"""Benchmarks are run by hand: here, that they can be."""

import sys
from pathlib import Path

import pytest

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
