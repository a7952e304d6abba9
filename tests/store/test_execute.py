"""What the file system does wrong is never a trial's failure, and what a trial has done is not done again."""

import errno
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fedbench import TrialConfig
from fedbench.analysis.trials import mixed
from fedbench.data.base import Arrays, Dataset, register_dataset
from fedbench.render.report import make_report
from fedbench.simulation import Record, Simulation, checkpoint
from fedbench.specs.expand import expand
from fedbench.store import execute as module
from fedbench.store.execute import execute
from fedbench.store.store import Store
from tests.conftest import forgetting
from tests.faults import Faults
from tests.helpers import Hear, study_file

Make = Callable[..., TrialConfig]


@pytest.fixture(autouse=True)
def always_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint after every round."""
    monkeypatch.setattr(module, "CHECKPOINT_SECONDS", 0.0)


def rounds_of(config: TrialConfig, store: Store) -> list[int]:
    """Run a trial; the rounds that this took."""
    seen: list[int] = []
    assert execute(config, store, None, [Hear(lambda _, record: seen.append(record.round))]).status == "done"
    return seen


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO], ids=["ENOSPC", "EDQUOT", "EIO"])
def test_a_disk_that_fails_when_a_trial_is_stored_is_no_failure_and_no_round_is_run_again(
    tiny: Make, faults: Faults, tmp_path: Path, number: int
) -> None:
    config, store = tiny(), Store(tmp_path)
    store.prepare()
    with faults.armed(store.trials, number, 1, lasting=True), pytest.raises(OSError) as raised:
        execute(config, store, None)
    assert raised.value.errno == number
    assert str(tmp_path) in str(raised.value), "it says where"
    assert store.get(config.hash) is None, "it has not failed"
    assert rounds_of(config, store) == [], "its last state was kept"
    assert not store.checkpoints(config.hash).exists()


def test_whichever_write_of_a_trial_fails_it_is_stored_or_an_error_and_never_a_failure(
    tiny: Make, faults: Faults, tmp_path: Path
) -> None:
    config, outcomes = tiny(rounds=2), list[bool]()
    for at in range(500):
        store, raised = Store(tmp_path / str(at)), False
        with faults.armed(store.out, errno.ENOSPC, at, lasting=True, writes=True) as struck:
            try:
                execute(config, store, None)
            except OSError:
                raised = True
        if not struck.struck:
            break
        entry = Store(store.out).get(config.hash)
        assert entry is None or entry.status == "done", f"call {at}, {struck.calls[at]}"
        assert raised is (entry is None), f"call {at}, {struck.calls[at]}"
        outcomes.append(raised)
    assert sum(outcomes) > 20 and not all(outcomes), "faults while it runs, and after it was stored"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[int], Path]]:
    """Mounts a file system of so many bytes below the folder; skips where that is not allowed."""
    mounted: list[Path] = []

    def mount(size: int) -> Path:
        folder = tmp_path / str(size)
        folder.mkdir()
        made = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
        if os.geteuid() != 0 or subprocess.run(made, capture_output=True).returncode:
            pytest.skip("needs the right to mount a small file system")
        mounted.append(folder)
        return folder

    yield mount
    for folder in mounted:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_is_never_a_failure_and_the_trial_goes_on_once_there_is_room(
    tiny: Make, small_disk: Callable[[int], Path]
) -> None:
    config = tiny(rounds=2)
    stopped = 0
    for pages in range(2, 70, 4):
        store = Store(small_disk(4096 * pages))
        try:
            execute(config, store, None)
        except OSError as error:
            stopped += 1
            assert error.errno == errno.ENOSPC
            assert str(store.out) in str(error)
            assert Store(store.out).get(config.hash) is None, f"{pages} pages: {error}"
        subprocess.run(["mount", "-o", "remount,size=64m", str(store.out)], check=True)
        before = list(store.checkpoints(config.hash).glob(checkpoint.PATTERN))
        assert len(rounds_of(config, Store(store.out))) <= 2 - bool(before)
    assert stopped > 5


def test_data_that_the_disk_does_not_give_are_no_failure(tiny: Make, tmp_path: Path) -> None:
    def load(data_dir: Path | None) -> Arrays:
        raise OSError(errno.EIO, "Input/output error", "images")

    with forgetting():
        register_dataset(Dataset("own", (1, 8, 8), 10, 400, 400, load, defaults={"model": "mlp"}), version="1")
        config, store = tiny(data__name="own"), Store(tmp_path)
        with pytest.raises(OSError, match=r"data set 'own': cannot be read .*Input/output error"):
            execute(config, store, None)
        assert store.get(config.hash) is None


def test_a_trial_that_fails_goes_on_from_its_checkpoint(
    tiny: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, store, step = tiny(rounds=4), Store(tmp_path), Simulation.step

    def fail(self: Simulation) -> Record:
        if self.state.round == 2:
            raise ZeroDivisionError("out of luck")
        return step(self)

    with monkeypatch.context() as patched:
        patched.setattr(Simulation, "step", fail)
        assert execute(config, store, None).status == "failed"
    assert store.checkpoints(config.hash).is_dir()
    assert rounds_of(config, store) == [3, 4]
    assert not store.checkpoints(config.hash).exists()


def stop_after(config: TrialConfig, store: Store, rounds: int) -> None:
    """Run a trial until a machine goes away."""

    def stop(simulation: Simulation, record: Record) -> None:
        if record.round > rounds:
            raise OSError("the machine went away")

    with pytest.raises(OSError, match="went away"):
        execute(config, store, None, [Hear(stop)])


def test_a_checkpoint_that_cannot_be_restored_costs_its_rounds_and_not_the_trial(tiny: Make, tmp_path: Path) -> None:
    config, store = tiny(rounds=4), Store(tmp_path)
    stop_after(config, store, 3)
    older, newest = sorted(store.checkpoints(config.hash).glob(checkpoint.PATTERN))
    assert (older.name, newest.name) == ("round-000002.ckpt", "round-000003.ckpt")
    other = Simulation(config)
    other.state.w = other.state.w[:-1]
    newest.write_bytes(checkpoint.save(other, tmp_path / "other").read_bytes())
    assert rounds_of(config, store) == [3, 4]
    (complaint,) = store.complaints
    assert str(newest) in complaint and "skipped" in complaint


def test_where_a_resumed_trial_was_before_is_stored_and_its_table_says_that_it_mixes(tmp_path: Path) -> None:
    study = expand(study_file(tmp_path, seeds=(8,)), "quick", changes={}, only={}, seeds=None)
    config, store = next(iter(study.trials.values())), Store(tmp_path / "out")
    places = [config.model_copy(update={"run": config.run.model_copy(update={"threads": n})}) for n in (1, 2)]
    assert len({place.hash for place in places}) == 1
    stop_after(places[0], store, 1)
    trial = execute(places[1], store, None)
    stored = json.loads(trial.read("environment.json"))
    assert stored["threads"] == 2
    assert [(place["threads"], "earlier" in place) for place in stored["earlier"]] == [(1, False)]
    here, before = trial.environments()
    assert (", 2 threads," in here, ", 1 thread," in before) == (True, True)
    assert trial.environment() == f"{here}, before that on {before}"
    line = f"mixes 2 environments: {before}; {here}"
    assert mixed({trial.hash: trial}) == [line]
    make_report(study, store)
    assert line in (tmp_path / "out" / "studies" / "mine" / "quick" / "table.md").read_text()


def test_a_trial_that_was_never_elsewhere_names_one_environment(tiny: Make, tmp_path: Path) -> None:
    config, store = tiny(), Store(tmp_path)
    stop_after(config, store, 1)
    trial = execute(config, store, None)
    assert "earlier" not in json.loads(trial.read("environment.json"))
    assert mixed({trial.hash: trial}) == []
