"""What comes home from workers that do not see the driver's folder, and what they get: on a real Ray."""

import hashlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import ray

from fedbench import TrialConfig
from fedbench.data.base import DATASETS
from fedbench.store.execute import execute, record_failure
from fedbench.store.store import Store
from fedbench.tune.away import Place, away_folder, sees
from fedbench.tune.board import Board, StopNote
from fedbench.tune.freight import digest_of, received, sent
from fedbench.tune.home import Home
from fedbench.tune.options import RunOptions

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_cpu")]
Tiny = Callable[..., TrialConfig]


@pytest.fixture
def home(tmp_path: Path, one_cpu: None) -> Iterator[Home]:
    """That of a command; its workers are made to look for another folder than its own."""
    with Home(RunOptions(tmp_path / "out"), lambda text: None, idle=False) as home:
        yield home


def away(home: Home, config: TrialConfig) -> tuple[Place, dict[str, Any]]:
    """Where a worker would run a trial that does not see the folder, and what it would report in the end."""
    about = {**(home.about() or {}), "sign": "/not/there"}
    place = Place.of({"home": about, "out": "/not/there", "stop": "/not/there"})
    assert place.away
    place.store.prepare()
    assert home.taken_in({"hash": config.hash, "status": "away"}) == {}
    return place, {"hash": config.hash, "status": "done", "reason": ""}


def test_the_folder_is_known_by_a_file_that_is_there_while_the_command_runs(tmp_path: Path) -> None:
    said: list[str] = []
    with Home(RunOptions(tmp_path / "out"), said.append, idle=False) as home:
        about = home.about()
        assert about is not None
        assert sees(about["sign"], about["owner"])
        assert not sees(about["sign"], "somebody else's")
        assert not Place.of({"home": about, "out": str(tmp_path / "out"), "stop": "stop"}).away
        assert not said
        for trial in ("one", "another"):
            home.taken_in({"hash": trial, "status": "away"})
        (line,) = said
        assert line.endswith("checkpoints stay on the nodes (--checkpoints keeps them elsewhere)")
    assert not sees(about["sign"], about["owner"])
    assert not list((tmp_path / "out" / "leases").iterdir())


@pytest.mark.parametrize("status", ["done", "diverged", "failed"])
def test_every_outcome_comes_home_to_the_byte(home: Home, tiny: Tiny, status: str) -> None:
    config = tiny(clients__lr=1e30 if status == "diverged" else 0.08)
    place, ended = away(home, config)
    lease = home.store.lease(config.hash)
    assert lease.exists(), "the driver holds the lease meanwhile"
    if status == "failed":
        record_failure(place.store, config.hash, RuntimeError("no luck"))
    else:
        execute(config, place.store, None)
    events = place.store.out / "tensorboard" / f"alpha 1, {config.hash[:12]}" / "events"
    events.parent.mkdir(parents=True)
    events.write_bytes(b"points")
    result = home.taken_in({**ended, "status": status, **place.freight(config.hash, status)})
    assert result["status"] == status
    here, there = home.store.get(config.hash), place.store.get(config.hash)
    assert here and there
    assert here.status == status
    assert here.files() == there.files()
    assert (home.store.out / events.relative_to(place.store.out)).read_bytes() == b"points"
    assert not lease.exists()


class Sender:
    """A worker that sends something."""

    def send(self, content: object) -> str:
        return sent(content)


def test_what_is_lost_or_altered_on_the_way_is_run_again(home: Home, tiny: Tiny) -> None:
    config = tiny()
    place, ended = away(home, config)
    execute(config, place.store, None)
    stored = place.store.get(config.hash)
    assert stored
    files = stored.files()
    altered = {**files, "rounds.csv": files["rounds.csv"] + b"1"}
    less = {name: content for name, content in files.items() if name != "rounds.csv"}
    for entry in (altered, less, {}):
        result = home.taken_in({**ended, "freight": sent({"entry": entry, "more": {}})})
        assert result["status"] == "lost"
    worker: Any = ray.remote(num_cpus=0)(Sender).remote()
    reference = ray.get(worker.send.remote({"entry": files, "more": {}}))
    ray.kill(worker)
    with pytest.raises(ray.exceptions.RayError):  # once Ray has noticed
        for _ in range(600):
            received(reference, 60)
            time.sleep(0.1)
    assert home.taken_in({**ended, "freight": reference})["status"] == "lost", "it is gone with its process"
    assert not home.store.get(config.hash)
    outside = {"../outside": b"", "/outside": b""}
    home.taken_in({**ended, "freight": sent({"entry": files, "more": outside})})
    assert not (home.store.out.parent / "outside").exists()


def test_a_disk_that_is_full_at_home_is_said_and_nothing_is_lost(home: Home, tiny: Tiny) -> None:
    config = tiny()
    place, ended = away(home, config)
    execute(config, place.store, None)
    home.store.trials.parent.mkdir(exist_ok=True)
    home.store.trials.write_text("no folder can be made here")
    result = home.taken_in({**ended, **place.freight(config.hash, "done")})
    assert result["status"] == "failed"
    assert result["reason"]
    assert place.store.finished([config.hash])


def test_a_worker_elsewhere_hears_of_ctrl_c(home: Home) -> None:
    note = StopNote(Board(home.board.command))
    assert not note.exists()
    home.asked = lambda: 2
    home.on_step_begin(0, [])
    deadline = time.monotonic() + 60
    while not note.exists():
        assert time.monotonic() < deadline


def test_a_node_gets_data_that_it_lacks_once_whoever_asks(home: Home, tmp_path: Path) -> None:
    def fetch() -> str:
        from fedbench.tune.freight import digest_of, fetched

        with pytest.MonkeyPatch.context() as node:  # a lean Ray has no runtime environments
            node.setenv("FEDBENCH_CACHE", str(cache))
            return digest_of(fetched("mnist5k", Board(command)))

    command, cache = home.board.command, tmp_path / "node"
    task: Any = ray.remote(num_cpus=0)(fetch)
    asked = [task.remote() for _ in range(2)]
    while ray.wait(asked, num_returns=2, timeout=0.2)[1]:
        home.on_step_begin(0, [])
    assert set(ray.get(asked)) == {digest_of(DATASETS.get("mnist5k").load(None))}
    (kept,) = (cache / "arrays").iterdir()
    assert kept.name.startswith("mnist5k-")


def test_a_name_of_a_folder_stays_and_changes_when_all_is_to_be_run_again(tmp_path: Path) -> None:
    store = Store(tmp_path)
    name = store.name()
    assert Store(tmp_path).name() == name
    assert away_folder(name) == away_folder(name)
    store.retire([hashlib.sha256(b"").hexdigest()])
    assert store.name() != name
