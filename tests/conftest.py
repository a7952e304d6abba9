import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
from hypothesis import settings

from fedbench import TrialConfig
from fedbench.data.base import DATASETS
from fedbench.data.partitions import PARTITIONS
from fedbench.indicators import INDICATORS
from fedbench.methods import METHODS
from fedbench.models import MODELS
from fedbench.simulation.record import Record
from fedbench.terminal.command import run

settings.register_profile("fedbench", deadline=None, derandomize=True, max_examples=40)
settings.load_profile("fedbench")

TINY: dict[str, Any] = {
    "data.train_size": 300,
    "data.test_size": 200,
    "clients.count": 5,
    "clients.batch_size": 32,
    "clients.lr": 0.08,
    "proxy.size": 20,
    "rounds": 3,
}


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """All tests share one cache folder, which is not the user's."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "fedbench-cache"
    before = {name: os.environ.pop(name, None) for name in ("FEDBENCH_CACHE", "FEDBENCH_DATA")}
    os.environ["FEDBENCH_CACHE"] = str(folder)
    yield folder
    for name, value in before.items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value


@pytest.fixture
def tiny() -> Callable[..., TrialConfig]:
    """A config of a run that takes a fraction of a second; settings with dotted keys on top."""

    def make(**settings: Any) -> TrialConfig:
        return TrialConfig(**{**TINY, **{key.replace("__", "."): value for key, value in settings.items()}})

    return make


@pytest.fixture
def forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is forgotten after it."""
    for registry in (METHODS, MODELS, DATASETS, PARTITIONS, INDICATORS):
        registry.items()  # all that comes with fedbench is there
        for name in ("_items", "_versions", "_modules", "_sorted"):
            monkeypatch.setattr(registry, name, type(getattr(registry, name))(getattr(registry, name)))


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Run a command line's main in this process: exit code, standard output, standard error."""

    def call(main: Any, *arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["fedbench", *arguments])
        capsys.readouterr()
        with pytest.raises(SystemExit) as stopped:
            run(main)
        captured = capsys.readouterr()
        return int(stopped.value.code or 0), captured.out, captured.err

    return call


@pytest.fixture(scope="module")
def two_cpus() -> Iterator[None]:
    """One small Ray cluster in this process for all tests of a file that need nothing special."""
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def timeless(records: list[Record]) -> list[dict[str, Any]]:
    """Records without their time columns."""
    return [{k: v for k, v in record.as_dict().items() if not k.startswith("seconds")} for record in records]


def heed_interrupts() -> None:
    """For a child process, before it starts: Ctrl-C counts, even where the tests themselves run in the background."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
