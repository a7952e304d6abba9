import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fedbench import TrialConfig
from fedbench.store import leases
from fedbench.store.execute import execute
from fedbench.store.leases import HeldElsewhereError, Lease, Watch, read
from fedbench.store.store import Store
from tests.helpers import Hear, wait_until

Make = Callable[..., TrialConfig]
HOLDER = """
import sys, time
from pathlib import Path
from fedbench.store.leases import Lease
with Lease(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "leases" / "hash"


@pytest.fixture
def holder(file: Path) -> "Iterator[subprocess.Popen[str]]":
    """Another process that holds the lease."""
    process = subprocess.Popen([sys.executable, "-c", HOLDER, str(file)], stdout=subprocess.PIPE, text=True)
    assert process.stdout
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()


def stranger(file: Path) -> None:
    """Put the lease of a machine that cannot be looked into in the place of what is there."""
    file.parent.mkdir(exist_ok=True)
    file.unlink(missing_ok=True)
    file.write_text(json.dumps({"owner": "x", "host": "far", "pid": 7, "machine": "other"}))


def test_of_many_at_a_time_one_gets_the_lease_and_leaves_nothing_behind(file: Path) -> None:
    start, done = threading.Barrier(16), threading.Event()

    def take(_: int) -> bool:
        start.wait()
        try:
            with Lease(file):
                return done.wait(10)
        except HeldElsewhereError:
            return False

    with ThreadPoolExecutor(16) as pool:
        taken = [pool.submit(take, number) for number in range(16)]
        wait_until(lambda: sum(each.done() for each in taken) >= 15)  # all but the one that has it
        done.set()
    assert sum(each.result() for each in taken) == 1
    assert list(file.parent.iterdir()) == []


def test_who_holds_it_is_named_and_a_killed_holder_gives_way_at_once(
    file: Path, holder: "subprocess.Popen[str]"
) -> None:
    with pytest.raises(HeldElsewhereError, match=f"process {holder.pid} on "), Lease(file):
        raise AssertionError("it is held")
    watch = Watch()
    assert watch.holder(file).startswith(f"process {holder.pid} on ")
    holder.kill()
    holder.wait()
    with Lease(file):
        assert (read(file) or {})["pid"] != holder.pid
    assert watch.holder(file) == ""


def test_a_process_that_has_another_ones_number_is_not_taken_for_it(file: Path) -> None:
    with Lease(file):
        content = read(file)
    assert content is not None
    file.write_text(json.dumps({**content, "started": "1"}))
    assert Watch().holder(file) == ""
    assert not file.exists()


def test_a_lease_of_another_machine_is_stale_once_it_has_not_changed_for_long(file: Path) -> None:
    now = 0.0
    watch = Watch(patience=60, clock=lambda: now)
    stranger(file)
    for hour in range(4):
        os.utime(file, (3600 * hour,) * 2)
        assert watch.holder(file) == "process 7 on far", "it changes: its holder is alive, whatever its clock says"
        now += 59
    assert watch.holder(file) == "process 7 on far"
    now += 1
    assert watch.holder(file) == ""
    assert not file.exists()


def test_a_holder_renews_its_lease_and_no_other_one_in_its_place(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "BEAT_SECONDS", 0.02)
    with Lease(file) as lease:
        first = read(file)
        wait_until(lambda: read(file) not in (None, first))
        stranger(file)
        other, renewed = read(file), os.fstat(lease._file).st_mtime_ns
        wait_until(lambda: os.fstat(lease._file).st_mtime_ns > renewed)
        assert read(file) == other, "it does not renew what others hold"
    assert file.exists(), "nor remove what is not its own"


def test_a_trial_that_another_process_runs_is_left_to_it(
    tiny: Make, tmp_path: Path, holder: "subprocess.Popen[str]", file: Path
) -> None:
    store, rounds = Store(tmp_path), []
    file.rename(store.lease(tiny().hash))
    hear = [Hear(lambda _, record: rounds.append(record.round))]
    with pytest.raises(HeldElsewhereError):
        execute(tiny(), store, None, hear)
    assert (rounds, store.get(tiny().hash)) == ([], None)
    holder.kill()
    holder.wait()
    assert execute(tiny(), store, None, hear).status == "done"
    assert list(store.lease("").iterdir()) == []
