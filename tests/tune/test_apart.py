"""A cluster of machines that share no folder, for real: each in namespaces of its own."""

import json
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import TimeoutExpired
from typing import Any

import numpy as np
import pytest

from fedbench.base.versions import PACKAGE
from fedbench.config.naming import SHORT_HASH
from fedbench.data.sets.fashion_mnist import DEBIAN
from fedbench.render.report import make_report
from fedbench.specs.expand import expand
from fedbench.store.execute import execute
from fedbench.store.store import Store
from tests.helpers import results, wait_until
from tests.tune.machines import PORT, Machines, Process, reason_to_skip

pytestmark = [
    pytest.mark.slow,
    pytest.mark.thorough,
    pytest.mark.timeout(600),
    pytest.mark.skipif(bool(reason_to_skip()), reason=reason_to_skip()),
]
HEAD, STEADY, OTHER, LATE = 1, 2, 3, 4

RULE = """
import os
import time
from pathlib import Path
from typing import Literal

from beside import shrunk

from fedbench.data.base import Arrays, Dataset, register_dataset
from fedbench.methods import Cohort, Method, MethodSettings, Server, Update, register_method


class ShrunkSettings(MethodSettings):
    name: Literal["shrunk"] = "shrunk"
    factor: float = 1.0


@register_method()
class Shrunk(Method[ShrunkSettings]):
    Settings = ShrunkSettings

    def aggregate(self, cohort: Cohort, state: object, server: Server) -> Update:
        if pace := os.environ.get("PACE"):
            time.sleep(float(Path(pace).read_text()))
        return Update(w=shrunk(cohort, self.settings.factor), lambda_=cohort.p)
"""

BESIDE = """
def shrunk(cohort, factor):
    return factor * (cohort.p @ cohort.W)
"""

DATA = """
import numpy as np


def load(data_dir):
    return Arrays(*(np.load(data_dir / f"{field}.npy") for field in Arrays._fields))


register_dataset(Dataset("own", (1, 8, 8), 10, 1000, 500, load, defaults={"model": "mlp"}))
"""

STUDY = """
title: Mine
shows: Something.
import: [rule]
base: {data.name: %s, data.train_size: 100, data.test_size: 300, clients.count: 2, rounds: %d, method.name: shrunk}
grid:
  data.alpha: [100, 1, 0.5, 0.3]
  method.factor: [1.0, 0.99]
seeds: [8]
baseline: {method.factor: 1.0}
tables:
  accuracy: {rows: [data.alpha], columns: [method.factor], best: row}
scales:
  quick: {}
"""
ROUNDS = 30
SLOW, FAST = 0.5, 0.05  # seconds that a round takes at least on the machines: trials are to be met in the middle


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """All that the machines do not share; a short path, since sockets of Ray's are below it."""
    path = Path(tempfile.mkdtemp(prefix="fb-"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="module")
def study(folder: Path) -> Path:
    """A study with a method of one's own, which imports from beside it; on Fashion-MNIST where that is at hand."""
    (folder / "study").mkdir()
    (folder / "data").mkdir()
    (folder / "study" / "rule.py").write_text(RULE + DATA)
    (folder / "study" / "beside.py").write_text(BESIDE)
    name = "fashion_mnist" if (DEBIAN / "fashion-mnist").is_dir() else "own"
    if name == "own":
        own_data(folder / "data")
    else:
        shutil.copytree(DEBIAN / "fashion-mnist", folder / "data" / "fashion-mnist")
    path = folder / "study" / "mine.yaml"
    path.write_text(STUDY % (name, ROUNDS))
    return path


def own_data(folder: Path) -> None:
    """Noise, and a brighter pixel for each class."""
    draw = np.random.default_rng(8)
    for part, size in (("train", 1000), ("test", 500)):
        labels, images = draw.integers(0, 10, size), draw.integers(0, 120, (size, 8, 8, 1))
        images[np.arange(size), labels % 8, labels // 2] += 130
        np.save(folder / f"{part}_labels.npy", labels)
        np.save(folder / f"{part}_images.npy", images.astype(np.uint8))


@pytest.fixture(scope="module")
def pace() -> Iterator[Path]:
    """The file of how long a round takes at least; all machines see it."""
    path = Path(tempfile.mkdtemp(prefix="fb-pace-"), "seconds")
    yield path
    shutil.rmtree(path.parent)


@pytest.fixture(scope="module")
def machines(folder: Path, pace: Path) -> Iterator[Machines]:
    """A head that runs no trials, and a machine that does."""
    lab = Machines(folder, hidden=[DEBIAN])
    try:
        lab.ray(HEAD, cpus=0, environment=surroundings(folder, pace), head=True)
        wait_until(lambda: lab.joined(HEAD))
        lab.ray(STEADY, cpus=1, environment=surroundings(folder, pace))
        wait_until(lambda: lab.joined(STEADY))
        yield lab
    finally:
        lab.close()


@pytest.fixture(scope="module")
def checkpoints() -> Iterator[Path]:
    """The one place that all machines see."""
    path = Path(tempfile.mkdtemp(prefix="fb-checkpoints-"))
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="module")
def other() -> Iterator[Path]:
    """Where another fedbench is."""
    path = Path(tempfile.mkdtemp(prefix="fb-other-"))
    shutil.copytree(PACKAGE, path / "fedbench", ignore=shutil.ignore_patterns("__pycache__"))
    identity = path / "fedbench" / "config" / "identity.py"
    identity.write_text(identity.read_text().replace("SIMULATION_VERSION = 1", "SIMULATION_VERSION = 2"))
    yield path
    shutil.rmtree(path)


def surroundings(folder: Path, pace: Path | None = None, code: Path = PACKAGE.parent) -> dict[str, str]:
    return {
        "PYTHONPATH": str(code),
        "FEDBENCH_CACHE": f"{folder}/cache",
        "HOME": str(folder),
        "RAY_AUTH_MODE": "disabled",
        "PACE": str(pace or ""),
    }


def keep(pace: Path, seconds: float) -> None:
    """Let rounds take so long at least, from now on; whoever reads sees one pace or the other."""
    new = pace.with_suffix(".new")
    new.write_text(str(seconds))
    new.replace(pace)


def start(machines: Machines, study: Path, *more: str) -> Process:
    """The study's command, on the head."""
    folder = machines.folder
    words = [sys.executable, "-m", "fedbench.study", str(study), f"--out={folder}/out", f"--data-dir={folder}/data"]
    words += [f"--address={machines.address(HEAD)}:{PORT}", *more]
    return machines.start(HEAD, *words, environment=surroundings(folder), alone=False)


def meet(process: Process, condition: Callable[[], bool]) -> None:
    """Wait for something to happen while a command runs."""
    try:
        wait_until(lambda: condition() or process.poll() is not None, 250)
        assert process.poll() is None
    except AssertionError as error:
        process.kill()
        raise AssertionError(process.communicate()) from error


def ended(process: Process, seconds: float) -> tuple[str, str]:
    """What a command has printed, once it has ended."""
    try:
        return process.communicate(timeout=seconds)
    except TimeoutExpired as error:
        process.kill()
        raise AssertionError(process.communicate()) from error


def stored(out: Path) -> set[str]:
    return {path.name for path in out.glob("trials/[0-9a-f]*")}


def reports(out: Path, since: float = 0.0) -> list[dict[str, Any]]:
    """What Tune has heard of trials."""
    texts = [path.read_text() for path in out.glob("ray/*/*/result.json")]
    lines = [json.loads(line) for text in texts for line in text.split("\n")[:-1]]  # the last may be half written
    return [line for line in lines if line["timestamp"] >= since]


def rounds(out: Path, since: float = 0.0) -> list[dict[str, Any]]:
    """The reports of rounds."""
    return [line for line in reports(out, since) if line["round"]]


def undisturbed(study: Path, out: Path, data: Path) -> tuple[str, str]:
    """The results on one machine: one trial after the other, in this process, without Ray."""
    expanded = expand(str(study), "quick", changes={}, only={}, seeds=None)
    store = Store(out)
    store.prepare()
    for config in expanded.trials.values():
        assert execute(config, store, data).status == "done"
    make_report(expanded, store)
    return results(out)


def test_a_node_with_another_version_gets_no_trials_if_it_joins_late_and_is_refused_before_they_start(
    machines: Machines, study: Path, other: Path, checkpoints: Path, pace: Path
) -> None:
    out, address = machines.folder / "out", machines.address(OTHER)
    keep(pace, SLOW)
    process = start(machines, study, f"--checkpoints=file://{checkpoints}")
    meet(process, lambda: bool(rounds(out)))
    machines.ray(OTHER, cpus=1, environment=surroundings(machines.folder, pace, other))
    meet(process, lambda: any(line["status"] == "refused" for line in reports(out)))
    refused = time.time()
    meet(process, lambda: any(line["round"] < ROUNDS / 3 for line in rounds(out, since=refused)))
    process.send_signal(signal.SIGTERM)
    text, error = ended(process, 100)
    assert process.returncode == 143, (text, error)
    assert len(machines.listed(STEADY, "cache/arrays")) == 1, "it has got the data set"
    assert f"warning: node {address} has fedbench 0.1.0 (simulation 2, source" in error
    assert "it gets no trials" in error
    assert {line["node_ip"] for line in rounds(out)} == {machines.address(STEADY)}
    assert list(checkpoints.glob("*/round-*.ckpt")), "trials have ended their round, and written a checkpoint"

    process = start(machines, study)
    text, error = ended(process, 100)
    assert process.returncode == 2, (text, error)
    assert len(error.strip().splitlines()) == 1
    assert f"node {address} has fedbench 0.1.0 (simulation 2, source" in error
    assert "this command has fedbench 0.1.0 (simulation 1, source" in error
    assert "--ship" in error


@pytest.mark.usefixtures("forgotten")
def test_trials_come_home_from_machines_that_share_nothing_whatever_happens_to_them(
    machines: Machines, study: Path, other: Path, checkpoints: Path, pace: Path, tmp_path: Path
) -> None:
    out, begun, done = machines.folder / "out", time.time(), stored(machines.folder / "out")
    stopped = {path.parent.name: int(path.stem[-6:]) for path in checkpoints.glob("*/round-*.ckpt")}
    keep(pace, SLOW)
    if not machines.has(OTHER):
        machines.ray(OTHER, cpus=1, environment=surroundings(machines.folder, pace, other))
    more = ["--ship", f"--checkpoints=file://{checkpoints}", "--save-model", "--track=tensorboard"]
    process = start(machines, study, *more)
    meet(process, lambda: bool(rounds(out, begun)))
    machines.ray(LATE, cpus=1, environment=surroundings(machines.folder, pace))
    meet(process, lambda: machines.address(LATE) in {line["node_ip"] for line in rounds(out, begun)})
    keep(pace, FAST)
    meet(process, lambda: stored(out) > done)
    machines.kill(STEADY)
    text, error = ended(process, 250)
    assert process.returncode == 0, (text, error)
    heard = rounds(out, begun)
    assert {line["node_ip"] for line in heard} >= {machines.address(number) for number in (OTHER, LATE)}
    for hash_, round_ in stopped.items():
        assert all(line["round"] >= round_ for line in heard if line["hash"] == hash_), "it goes on where it was"
    assert not list(checkpoints.iterdir())
    assert not list((out / "leases").iterdir())
    for number in (OTHER, LATE):
        assert len(machines.listed(number, "cache/arrays")) == 1, "data come once to a machine"
        assert machines.listed(number, "cache/away") == [], "what is home is not kept"
    for hash_ in stored(out) - done:
        assert Store(out).model(hash_).is_file()
        assert list(out.glob(f"tensorboard/mine/*{hash_[:SHORT_HASH]}/*tfevents*"))
    assert results(out) == undisturbed(study, tmp_path / "out", machines.folder / "data")
