"""Trials on a worker and what `Home` stores of them, on a real Ray; the worker is driven by the test itself."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import ray
from rich.console import Console

from fedbench import TrialConfig
from fedbench.config.naming import RunName
from fedbench.console.progress import Score, StudyProgress
from fedbench.data.base import DATASETS, Arrays
from fedbench.data.own import dataset_of, describe
from fedbench.methods import Method, MethodSettings, register_method
from fedbench.methods.base import size_weighted
from fedbench.store.away import node_folder, tidy_node
from fedbench.store.execute import execute
from fedbench.store.leases import Lease
from fedbench.store.mark import UNSTORED
from fedbench.store.store import Store
from fedbench.trackers import TRACKERS, Tracker, register_tracker
from fedbench.tune import worker
from fedbench.tune.experiment import common
from fedbench.tune.home import home_of
from fedbench.tune.nodes import Nodes
from fedbench.tune.options import RunOptions
from fedbench.tune.worker import FederatedRun, fetch

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_cpu")]
Tiny = Callable[..., TrialConfig]
ELSEWHERE = {"home_node": "another one"}  # makes a worker believe that it is not on the driver's node


@contextmanager
def home(out: Path, config: TrialConfig, *modules: str, **shared: Any) -> Iterator[tuple[str, Any]]:
    """The `Home` of a command with one trial; shared: changes to what all workers know."""
    store = Store(out)
    store.prepare()
    known = common(RunOptions(out, modules=modules), Nodes(started_here=False))
    trials = {config.hash: {"config": config.plain(), "name": asdict(RunName("mine", "FedAvg", config.seed))}}
    with home_of(out, {**known, **shared}, trials) as found:
        yield found


def worker_of(name: str, config: TrialConfig) -> FederatedRun:
    settings = {"home": name, "hash": config.hash, "command": "mine", "resources": {"CPU": 1.0}, "refused": []}
    return FederatedRun(settings)


def run(name: str, config: TrialConfig, each: Callable[[dict[str, Any]], object] = lambda _: None) -> dict[str, Any]:
    """Run a trial to its end; returns the last report."""
    process = worker_of(name, config)
    while not (report := process.step()).get("done"):
        each(report)
    process.cleanup()
    return report


@pytest.fixture(autouse=True)
def every_round(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Every round is reported, and asked about; the node's cache is the test's own."""
    monkeypatch.setattr(worker, "REPORT_SECONDS", 0.0)
    monkeypatch.setattr(worker, "ASK_SECONDS", 0.0)


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Another cache than that of the other tests."""
    monkeypatch.setenv("FEDBENCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.parametrize("shared", [{}, ELSEWHERE], ids=["here", "elsewhere"])
@pytest.mark.parametrize("status", ["done", "diverged", "failed"])
def test_every_outcome_is_stored_as_by_a_run_without_ray(
    tiny: Tiny, tmp_path: Path, cache: Path, status: str, shared: dict[str, str]
) -> None:
    config = tiny(clients__lr=1e30 if status == "diverged" else 0.08)
    modules = ["is_not_here"] if status == "failed" else []
    store = Store(tmp_path / "out")
    with home(store.out, config, *modules, **shared) as (name, _):
        held: list[bool] = []
        report = run(name, config, lambda _: held.append(store.lease(config.hash).exists()))
        assert not store.lease(config.hash).exists()
    assert report["status"] == status
    assert all(held)
    stored = store.get(config.hash)
    assert stored and stored.status == status
    if status == "failed":
        assert "is_not_here: cannot be imported" in report["reason"]
    else:
        whole = execute(config, Store(tmp_path / "whole"), None)
        assert stored.sums.keys() == whole.sums.keys()
        timed = ("config.yaml", "environment.json", "rounds.csv", "summary.json")  # or with the number of threads
        same = sorted(name for name in whole.sums if name not in timed)
        assert [stored.read(name) for name in same] == [whole.read(name) for name in same]
        assert stored.summary["final_accuracy"] == whole.summary["final_accuracy"]
    assert not store.checkpoints(config.hash).exists()
    assert not any((cache / "away").rglob("*.ckpt")), "nothing is kept on the node of what has ended"


def test_files_of_trackers_and_the_model_travel_with_the_entry(tiny: Tiny, tmp_path: Path, cache: Path) -> None:
    config, out = tiny(), tmp_path / "out"
    with home(out, config, save_model=True, trackers=["tensorboard"], **ELSEWHERE) as (name, _):
        assert run(name, config)["status"] == "done"
    assert [path for path in out.rglob("*tfevents*") if config.hash[:12] in str(path)]
    assert Store(out).model(config.hash).is_file()
    assert not any((cache / "away").rglob("*")), "the node keeps nothing"


class Noting(Tracker):
    """Notes why a run failed."""

    def crashed(self, reason: str) -> None:
        (self.out / f"noted, {self.config.hash[:12]}").write_text(reason)


class CrashingSettings(MethodSettings):
    name: Literal["raising"] = "raising"


class Crashing(Method[CrashingSettings]):
    """Fails in round 2."""

    Settings = CrashingSettings

    def aggregate(self, cohort: Any, state: Any, server: Any) -> Any:
        if cohort.round == 2:
            raise RuntimeError("no luck")
        return size_weighted(cohort)


@pytest.mark.usefixtures("forgotten")
@pytest.mark.parametrize("shared", [{}, ELSEWHERE], ids=["here", "elsewhere"])
def test_trackers_learn_of_a_failure_and_their_files_are_sent_with_it(
    tiny: Tiny, tmp_path: Path, cache: Path, shared: dict[str, str]
) -> None:
    register_method(version="1")(Crashing)
    if "noting" not in TRACKERS:
        register_tracker("noting")(Noting)
    config, store = tiny(method__name="raising"), Store(tmp_path / "out")
    with home(store.out, config, trackers=["noting"], **shared) as (name, _):
        report = run(name, config)
    assert (report["status"], report["reason"]) == ("failed", "RuntimeError: no luck")
    assert (store.out / f"noted, {config.hash[:12]}").read_text() == "RuntimeError: no luck"
    assert not list((cache / "away").rglob("noted*")), "the node keeps only what is needed to try again"


def test_a_model_beside_an_entry_is_that_of_the_same_run(tiny: Tiny, tmp_path: Path, cache: Path) -> None:
    config, store = tiny(), Store(tmp_path / "out")
    model = store.model(config.hash)
    for save, wanted in ((True, True), (False, False)):
        model.parent.mkdir(parents=True, exist_ok=True)
        model.write_bytes(b"of an earlier run")
        with home(store.out, config, save_model=save, **ELSEWHERE) as (name, _):
            assert run(name, config)["status"] == "done"
        assert model.exists() == wanted
        assert not wanted or model.read_bytes() != b"of an earlier run"
        store.retire([config.hash])


def test_an_entry_that_was_lost_or_altered_on_the_way_is_not_stored(tiny: Tiny, tmp_path: Path) -> None:
    config, store = tiny(), Store(tmp_path / "out")
    entry = execute(config, Store(tmp_path / "other"), None).files()
    altered = {**entry, "rounds.csv": entry["rounds.csv"] + b"1"}
    less = {name: content for name, content in entry.items() if name != "rounds.csv"}
    with home(store.out, config) as (_, handle):
        for files in (altered, less, {}):
            assert ray.get(handle.commit.remote(config.hash, files, None, {}))[0] == "UserError"
            assert not store.get(config.hash)
        assert ray.get(handle.commit.remote("0" * 64, entry, None, {}))[0] == "UserError"
        assert ray.get(handle.commit.remote(config.hash, entry, None, {})) == ("", "")
        assert ray.get(handle.commit.remote(config.hash, entry, None, {})) == ("", ""), "a call may be repeated"
    stored = store.get(config.hash)
    assert stored and stored.files() == entry


def test_home_writes_no_file_outside_the_results_folder(tiny: Tiny, tmp_path: Path) -> None:
    config, store = tiny(), Store(tmp_path / "out")
    entry = execute(config, Store(tmp_path / "other"), None).files()
    with home(store.out, config) as (_, handle):
        more = {"../outside": b"", "/outside": b"", "inside/file": b"x"}
        assert ray.get(handle.commit.remote(config.hash, entry, None, more)) == ("", "")
    assert store.get(config.hash)
    assert (store.out / "inside" / "file").read_bytes() == b"x"
    assert not (tmp_path / "outside").exists() and not Path("/outside").exists()


@pytest.mark.parametrize("shared", [{}, ELSEWHERE], ids=["here", "elsewhere"])
def test_a_disk_that_is_full_loses_nothing(tiny: Tiny, tmp_path: Path, cache: Path, shared: dict[str, str]) -> None:
    config, store = tiny(), Store(tmp_path / "out")
    with home(store.out, config, **shared) as (name, _):
        store.trials.rmdir()
        store.trials.write_text("no folder can be made here")
        report = run(name, config)
        assert report["status"] == UNSTORED
        assert str(store.trials) in report["reason"]
        store.trials.unlink()
        rounds: list[int] = []
        assert run(name, config, lambda report: rounds.append(report["round"]))["status"] == "done"
        assert rounds == [], "the last state was kept as a checkpoint"
    assert store.finished([config.hash])


def test_a_failure_that_cannot_be_stored_is_reported(tiny: Tiny, tmp_path: Path) -> None:
    config, store = tiny(), Store(tmp_path / "out")
    with home(store.out, config, "is_not_here") as (name, _):
        store.trials.rmdir()
        store.trials.write_text("no folder can be made here")
        report = run(name, config)
    assert report["status"] == UNSTORED
    assert "is_not_here: cannot be imported" in report["reason"] and str(store.trials) in report["reason"]


@pytest.mark.parametrize("shared", [{}, ELSEWHERE], ids=["here", "elsewhere"])
def test_a_trial_that_is_asked_to_stop_goes_on_where_it_was(
    tiny: Tiny, tmp_path: Path, cache: Path, shared: dict[str, str]
) -> None:
    config, out, place = tiny(rounds=6), tmp_path / "out", tmp_path / "place"
    with home(out, config, checkpoints=str(place), **shared) as (name, handle):
        stopped = run(name, config, lambda report: report["round"] == 2 and ray.get(handle.stop.remote()))
        assert (stopped["status"], stopped["round"]) == ("stopped", 3)
        assert run(name, config)["status"] == "stopped", "no other trial is started"
    assert [path.name for path in place.glob("*/*")] == ["round-000003.ckpt"]
    rounds: list[int] = []
    with home(out, config, checkpoints=str(place), **shared) as (name, _):
        assert run(name, config, lambda report: rounds.append(report["round"]))["status"] == "done"
    assert rounds[0] == 4
    assert not list(place.iterdir()), "no checkpoint is kept of what has ended"
    stored, whole = Store(out).get(config.hash), execute(config, Store(tmp_path / "whole"), None)
    assert stored and stored.summary["final_accuracy"] == whole.summary["final_accuracy"]


def test_a_trial_that_another_command_runs_or_has_stored_is_not_run_again(tiny: Tiny, tmp_path: Path) -> None:
    config, store = tiny(), Store(tmp_path / "out")
    with home(store.out, config) as (name, _):
        with Lease(store.lease(config.hash)):
            report = run(name, config)
            assert (report["status"], report["reason"].split()[1]) == ("elsewhere", str(os.getpid()))
        execute(config, store, None)
        report = run(name, config)
        assert report["status"] == "done" and report["found"]
        assert 0 < report["last_accuracy"] < 1


def test_home_that_dies_in_the_middle_of_a_trial_is_started_again_and_stores_it(tiny: Tiny, tmp_path: Path) -> None:
    config, store = tiny(), Store(tmp_path / "out")
    with home(store.out, config) as (name, handle):

        def strike(report: dict[str, Any]) -> None:
            if report["round"] == 1:
                ray.kill(handle, no_restart=False)
            else:
                held.append(store.lease(config.hash).exists())

        held: list[bool] = []
        assert run(name, config, strike)["status"] == "done"
    assert held and all(held), "its lease was taken again"
    assert store.finished([config.hash])
    assert not list((store.out / "leases").iterdir())


def test_tune_may_give_a_config_to_another_process_before_the_first_step(tiny: Tiny, tmp_path: Path) -> None:
    config, store = tiny(), Store(tmp_path / "out")
    with home(store.out, config) as (name, _):
        worker_of(name, config)
        assert not store.lease(config.hash).exists()
        process = worker_of(name, config)
        process.step()
        assert store.lease(config.hash).exists()
        process.cleanup()
        assert not store.lease(config.hash).exists(), "a worker that is ended gives its lease back"


def test_a_checkpoint_that_was_passed_over_is_a_warning_of_the_command(tiny: Tiny, tmp_path: Path) -> None:
    config, store = tiny(), Store(tmp_path / "out")
    bad = store.checkpoints(config.hash) / "round-000002.ckpt"
    bad.parent.mkdir(parents=True)
    bad.write_bytes(b"bad")
    with home(store.out, config) as (name, _):
        report = run(name, config)
    assert report["status"] == "done"
    (warning,) = report["warnings"]
    assert warning.startswith(f"{bad}: a checkpoint that cannot be used is skipped")


def test_a_node_keeps_the_checkpoints_of_trials_that_failed(cache: Path) -> None:
    folder = node_folder("mine") / "checkpoints"
    for hash_ in ("a" * 64, "b" * 64, "c" * 64):
        (folder / hash_).mkdir(parents=True)
    tidy_node("mine", {"a" * 64: "done", "b" * 64: "diverged", "c" * 64: "failed"})
    assert [path.name for path in folder.iterdir()] == ["c" * 64], "it is tried again"
    tidy_node("mine", {"c" * 64: "done"})
    assert not folder.parent.exists()


def test_a_node_gets_a_data_set_that_it_lacks_into_its_cache_once(tiny: Tiny, tmp_path: Path) -> None:
    def ask(folder: str) -> str:
        os.environ["FEDBENCH_CACHE"] = folder
        return fetch(ray.get_actor(name), DATASETS.get("mnist5k")).digest()

    task: Any = ray.remote(num_cpus=0, max_calls=1)(ask)
    with home(tmp_path / "out", tiny()) as (name, handle):
        found = ray.get([task.remote(str(tmp_path / "node")) for _ in range(2)])
        assert "unknown data set" in ray.get(handle.dataset.remote("nonsense"))["reason"]
    assert set(found) == {DATASETS.get("mnist5k").load(None).digest()}
    (kept,) = (tmp_path / "node" / "arrays").iterdir()
    assert kept.name.startswith("mnist5k-")


def test_a_score_is_reported_with_the_round_that_it_belongs_to(tiny: Tiny, tmp_path: Path) -> None:
    config = tiny(rounds=15, eval_every=2)  # the last ten rounds are scored anyway
    progress = StudyProgress({config.hash: config}, {config.hash: "x"}, Console(force_terminal=False))
    scores: list[Score | None] = []
    with home(tmp_path / "out", config) as (name, _):

        def hear(report: dict[str, Any]) -> None:
            progress.hear(config.hash, report)
            scores.append(progress.scores[config.hash])

        run(name, config, hear)
    assert [score and score.round for score in scores] == [None, 2, 2, 4, 4, *range(6, 16)]
    assert sorted(progress.curves[config.hash]) == [2, 4, *range(6, 16)]
    assert all(0 < accuracy <= 100 for accuracy in progress.curves[config.hash].values())


def test_a_name_of_a_folder_stays_and_changes_when_all_is_to_be_run_again(tmp_path: Path) -> None:
    store = Store(tmp_path)
    name = store.name()
    assert Store(tmp_path).name() == name
    store.retire(["0" * 64])
    assert store.name() != name


def test_home_answers_while_it_sends_a_data_set(tiny: Tiny, tmp_path: Path) -> None:
    """The slow call must not keep trials waiting."""
    (tmp_path / "slow_data.py").write_text(
        "import time\nfrom fedbench.data.base import Dataset, register_dataset\n"
        "def load(data_dir):\n    time.sleep(600)\n"
        'register_dataset(Dataset("slow", (1, 8, 8), 10, 100, 50, load, defaults={"model": "mlp"}))\n'
    )
    with home(tmp_path / "out", tiny(), str(tmp_path / "slow_data.py")) as (_, handle):
        sent = handle.dataset.remote("slow")
        ray.get(handle.common.remote(), timeout=60)
        assert ray.wait([sent], timeout=0)[0] == []


def test_a_node_gets_a_file_of_arrays_that_only_the_driver_has(tiny: Tiny, tmp_path: Path) -> None:
    y = np.arange(20) % 2
    path = tmp_path / "mine.npz"
    np.savez(path, x=np.zeros((20, 2, 2), np.uint8), y=y, owner=y, x_test=np.ones((4, 2, 2), np.uint8), y_test=y[:4])
    content = describe(path)

    def ask(folder: str) -> str:
        os.environ["FEDBENCH_CACHE"] = folder
        return fetch(ray.get_actor(name), dataset_of("file", "not here.npz", content)).digest()

    task: Any = ray.remote(num_cpus=0, max_calls=1)(ask)
    with home(tmp_path / "out", tiny()) as (name, handle):
        found = ray.get(task.remote(str(tmp_path / "node")))
        assert set(ray.get(handle.dataset.remote("file", str(path), content))["parts"]) == set(Arrays._fields) - {
            "owner_test"
        }
    assert found == content.split()[0]
    (kept,) = (tmp_path / "node" / "arrays").iterdir()
    assert kept.name == f"file-{content[:16]}"
