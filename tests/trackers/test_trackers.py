import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from tensorboardX.proto.event_pb2 import Event

from fedbench import TrialConfig
from fedbench.base.errors import ConfigError
from fedbench.config.naming import RunName
from fedbench.simulation import Record, Simulation, drive
from fedbench.store.execute import execute
from fedbench.store.store import Store
from fedbench.trackers import TRACKERS, Tracker, register_tracker, tracked, trackers_of
from tests.commands import trial as main

Make = Callable[..., TrialConfig]


def scalars(folder: Path) -> dict[str, dict[int, float]]:
    """Every number of TensorBoard's files by its name and step."""
    values: dict[str, dict[int, float]] = {}
    for path in folder.rglob("events*"):
        blob, at = path.read_bytes(), 0
        while at < len(blob):
            (length,) = struct.unpack("<Q", blob[at : at + 8])
            event = Event.FromString(blob[at + 12 : at + 12 + length])
            at += 16 + length
            for value in event.summary.value:
                values.setdefault(value.tag, {})[event.step] = value.simple_value
    return values


def test_tensorboard_has_every_number_of_every_round(tiny: Make, tmp_path: Path) -> None:
    config, said = tiny(method__name="fixed_gamma"), list[str]()
    stored = execute(config, Store(tmp_path), None, trackers_of(["tensorboard"], config, tmp_path, said.append))
    assert said == []
    found, rounds = scalars(tmp_path / "tensorboard"), stored.table("rounds").set_index("round")
    assert set(found["test_accuracy"]) == {1, 2, 3}
    assert found["gamma"] == pytest.approx({1: 0.95, 2: 0.95, 3: 0.95})
    for name in ("test_loss", "train_loss", "norm_w", "coherence_mean", "r"):
        assert found[name] == pytest.approx(rounds[name].to_dict(), rel=1e-6)
    assert "heterogeneity_coherence" in found
    further = stored.table("indicators")["name"]
    assert found.keys() == {*rounds.columns[rounds.notna().any()], *further}


def test_tensorboard_names_a_run_by_its_study_and_its_axes(tiny: Make, tmp_path: Path) -> None:
    simulation = Simulation(tiny())
    names = RunName("first", "alpha 0.1, a/b [x]", 8), RunName("second", "FedAvg", 8)
    for stop, name in enumerate(names, start=1):
        listeners = trackers_of(["tensorboard"], simulation.config, tmp_path, print, name)
        drive(simulation, listeners, stop=lambda stop=stop: simulation.state.round == stop)  # type: ignore[misc]
        (run,) = {path.parent.relative_to(tmp_path / "tensorboard") for path in tmp_path.rglob("events*")}
        words = name.axes.replace("a/b [x]", "a-b -x-")
        assert str(run) == f"{name.study}/{words}, seed 8, {simulation.config.hash[:12]}"


class Broken(Tracker):
    """Cannot be reached after the first round."""

    def round(self, run: Simulation, seen: Record) -> None:
        if seen.round == 2:
            raise ConnectionError("nobody there")


def test_a_tracker_that_fails_is_one_warning_and_never_a_lost_trial(tiny: Make, tmp_path: Path) -> None:
    if "broken" not in TRACKERS:
        register_tracker("broken")(Broken)
    said: list[str] = []
    stored = execute(tiny(), Store(tmp_path), None, trackers_of(["broken"], tiny(), tmp_path, said.append))
    assert stored.status == "done"
    assert said == ["--track broken: stopped tracking (ConnectionError: nobody there)"]


def test_a_tracker_that_fails_is_one_warning_even_if_the_run_crashes_later(tiny: Make, tmp_path: Path) -> None:
    class Absent(Tracker):
        def start(self, run: Simulation) -> None:
            raise ConnectionError("nobody there")

    if "absent" not in TRACKERS:
        register_tracker("absent")(Absent)
    for _ in range(2):  # the second run of this process does not try again, and says why
        said: list[str] = []
        with pytest.raises(ArithmeticError), tracked(["absent"], tiny(), tmp_path, said.append) as trackers:
            drive(Simulation(tiny(rounds=1)), trackers)
            raise ArithmeticError("out of luck")
        assert said == ["--track absent: stopped tracking (ConnectionError: nobody there)"]


def test_rounds_are_in_tensorboard_once_however_often_a_run_was_resumed(tiny: Make, tmp_path: Path) -> None:
    simulation = Simulation(tiny(rounds=4))
    for stop in (2, 4):
        listeners = trackers_of(["tensorboard"], simulation.config, tmp_path, print)
        drive(simulation, listeners, stop=lambda stop=stop: simulation.state.round == stop)  # type: ignore[misc]
    (folder,) = (tmp_path / "tensorboard").iterdir()
    assert len(list(folder.glob("events*"))) == 1
    assert set(scalars(folder)["train_loss"]) == {1, 2, 3, 4}


def test_an_unknown_tracker_is_an_error_before_anything_runs(
    command: Callable[..., tuple[int, str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match=r"did you mean 'tensorboard'\?"):
        TRACKERS.get("tensorbord")
    code, _, error = command(main, "--track", "tensorbord", "--out", str(tmp_path / "run"))
    assert (code, "did you mean 'tensorboard'?" in error) == (2, True)
    assert not (tmp_path / "run").exists()
    monkeypatch.setattr("fedbench.trackers.base.find_spec", lambda name: None)
    code, _, error = command(main, "--track", "mlflow", "--out", str(tmp_path / "run"))
    line = "error: --track mlflow: needs mlflow, which is not installed; pip install mlflow\n"
    assert (code, error, (tmp_path / "run").exists()) == (2, line, False)
    code, _, error = command(main, "--track", "tensorboard")
    assert (code, "--track needs --out DIR" in error) == (2, True)
