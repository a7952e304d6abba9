from pathlib import Path

import pytest

from fedbench import TrialConfig
from fedbench.corruptions import CORRUPTIONS
from fedbench.methods import METHODS
from fedbench.store.plugins import changed_plugins


def test_code_that_changed_since_its_trials_were_stored_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = TrialConfig(**{"method.name": "fedprox"})
    assert changed_plugins(tmp_path, [config]) == []
    assert not list(tmp_path.iterdir()), "nothing of ours needs remembering"
    for version, lines in (("source a", 0), ("source a", 0), ("source b", 1), ("source b", 0)):
        monkeypatch.setitem(METHODS._versions, "fedprox", version)
        said = changed_plugins(tmp_path, [config])
        assert len(said) == lines
    monkeypatch.setitem(METHODS._versions, "fedprox", "source c")
    (line,) = changed_plugins(tmp_path, [config])
    assert line == "the code of method 'fedprox' has changed since its trials were stored: they are run again"


def test_a_changed_method_inside_another_is_said_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = TrialConfig(**{"method.name": "fedlws", "method.inner.name": "fedprox"})
    for version, lines in (("source a", 0), ("source b", 1)):
        monkeypatch.setitem(METHODS._versions, "fedprox", version)
        assert len(changed_plugins(tmp_path, [config])) == lines


def test_a_changed_corruption_is_said_where_clients_are_corrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used, unused = (TrialConfig(**{"clients.corruption": "flip", "clients.corrupted": share}) for share in (0.5, 0.0))
    for version, lines in (("source a", 0), ("source b", 1)):
        monkeypatch.setitem(CORRUPTIONS._versions, "flip", version)
        assert changed_plugins(tmp_path, [unused]) == []
        assert len(changed_plugins(tmp_path, [used])) == lines
