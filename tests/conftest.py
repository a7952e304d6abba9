import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported: threads that wait for each other spin

import pytest
import ray
from hypothesis import settings

from fedbench import TrialConfig
from fedbench.base.signals import STOPS
from fedbench.cli.command import run
from fedbench.config.engines import ENGINES
from fedbench.data.base import DATASETS
from fedbench.data.partitions import PARTITIONS
from fedbench.indicators import INDICATORS
from fedbench.methods import METHODS
from fedbench.metrics import METRICS
from fedbench.models import MODELS
from fedbench.simulation.record import Record
from fedbench.specs.parts import CHECKS, PLOTS
from fedbench.tune.cluster import LocalRay
from fedbench.tune.options import RunOptions
from tests.faults import Faults

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

# Files that take minutes, the longest first: at the end nobody should wait for one that has just begun.
LONG = (
    "tune/test_disturbed.py",
    "tune/test_all_studies.py",
    "tune/test_apart.py",
    "tune/test_start.py",
    "test_search.py",
    "test_storm.py",
    "tune/test_gpu.py",
    "tune/test_watch.py",
    "test_study.py",
    "test_speed.py",
    "test_trial.py",
    "test_fuzz.py",
    "simulation/test_matrix.py",
    "test_one_file.py",
    "test_docs.py",
)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Long files first; those that are thorough only when they are asked for."""
    ranks = {Path(__file__).parent / name: rank for rank, name in enumerate(LONG)}
    items.sort(key=lambda item: ranks.get(item.path, len(LONG)))
    if not config.getoption("--thorough"):
        for item in items:
            if item.get_closest_marker("thorough"):
                item.add_marker(pytest.mark.skip(reason="it is run with --thorough"))


def pytest_addoption(parser: pytest.Parser) -> None:
    """How many examples tests/test_fuzz.py tries, and whether the longest tests are run."""
    parser.addoption("--fuzz", type=int, default=1000, metavar="N", help="examples of wrong input in all (1000)")
    parser.addoption("--thorough", action="store_true", help="also run tests that are marked as thorough")


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
def forgotten() -> Iterator[None]:
    """What a test registers is forgotten after it."""
    with forgetting():
        yield


@contextmanager
def forgetting() -> Iterator[None]:
    """What is registered in this block is forgotten after it."""
    with pytest.MonkeyPatch.context() as patch:
        for registry in (METHODS, MODELS, DATASETS, PARTITIONS, INDICATORS, ENGINES, METRICS, PLOTS, CHECKS):
            registry.items()  # all that comes with fedbench is there
            for name in ("_items", "_versions", "_modules", "_sorted"):
                patch.setattr(registry, name, type(getattr(registry, name))(getattr(registry, name)))
        yield


@pytest.fixture(scope="session")
def faults() -> Faults:
    """Makes calls of the file system fail."""
    return Faults()


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
    yield from small_cluster(2)


@pytest.fixture(scope="module")
def one_cpu() -> Iterator[None]:
    """The same for one trial at a time: only one worker starts, and imports."""
    yield from small_cluster(1)


def small_cluster(cpus: int, **how: Any) -> Iterator[None]:
    """A Ray cluster in this process, started as commands do. how: what else `ray.init` is to know."""
    ray.shutdown()
    local = LocalRay(RunOptions(Path("out"), max_concurrent=cpus), num_cpus=cpus, **how)
    try:
        local.wait()
        yield
    finally:
        local.stop()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Debian's Chromium, without a window; skips where there is none."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("there is no chromium here")
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def opened(browser: Any) -> Iterator[Callable[..., Any]]:
    """Opens a page; at the end nothing may have gone wrong, and nothing but the page itself been asked for."""
    contexts, wrong, asked = [], list[str](), list[str]()

    def open_(path: Path, **options: Any) -> Any:
        context = browser.new_context(**{"viewport": {"width": 1200, "height": 900}, **options})
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: wrong.append(message.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(path.as_uri())
        return page

    yield open_
    for context in contexts:
        context.close()
    assert not wrong
    assert all(url.startswith(("file:", "data:")) and url.endswith((".html", ",")) for url in asked), asked


def timeless(records: list[Record]) -> list[dict[str, Any]]:
    """Records without their time columns."""
    return [{k: v for k, v in record.as_dict().items() if not k.startswith("seconds")} for record in records]


def heed_interrupts() -> None:
    """For a child process, before it starts: signals count, even where the tests themselves run in the background."""
    for number in STOPS:
        signal.signal(number, signal.SIG_DFL)
