"""Whatever is written into files and options: it runs, or one line says what is wrong.

Never a traceback, a hang, a file outside of --out or more than 1 GiB: 1,000 examples in all, `--fuzz N` for more.
"""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import matplotlib
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from fedbench.specs.expand import expand
from fedbench.store.execute import execute
from fedbench.store.store import Store
from tests.fuzzing.commands import (
    FEW,
    OPTIONS,
    OWN_SET,
    SEARCHED,
    SETS,
    SETTINGS,
    data_files,
    lay_out,
    options,
    plugins,
    runs,
    typed,
)
from tests.fuzzing.damage import ODD_WORDS, damaged, file_of, flow
from tests.fuzzing.files import CONFIG, SPACE, STUDY, built_in, parsed, vocabulary
from tests.fuzzing.server import MEMORY, CommandServer, Outcome

LONGEST_LINE = 3000  # characters
WORDS = vocabulary()


class Ground:
    """A folder in which commands run, and what must be so afterwards."""

    def __init__(self, root: Path, cache: Path) -> None:
        self.root, self.work = root / "ground", root / "ground" / "deep" / "down" / "work"
        self.home = self.root / "home"
        for folder in (self.home, self.root / "tmp"):
            folder.mkdir(parents=True)
        own = {"HOME": self.home, "TMPDIR": self.root / "tmp", "FEDBENCH_CACHE": cache}
        fixed = {"MPLCONFIGDIR": matplotlib.get_cachedir(), "PYTHONDONTWRITEBYTECODE": "1"}
        self.commands = CommandServer(root, {**{name: str(path) for name, path in own.items()}, **fixed})

    def fresh(self) -> Path:
        """An empty folder to run the next command in."""
        shutil.rmtree(self.root / "deep", ignore_errors=True)
        self.work.mkdir(parents=True)
        return self.work

    def run(self, *arguments: str, failed: bool = False, own: bool = False) -> Outcome:
        """A command line that must be fine, or wrong input; `failed`: or a run that did not succeed.

        own: somebody's own code may have printed something before.
        """
        note(f"{arguments}")
        before = self._there()
        outcome = self.commands.run(self.work, *arguments)
        note(f"{outcome.code}, {outcome.memory >> 20} MiB, {outcome.out[-2000:]}, {outcome.err[-6000:]}")
        assert outcome.code in ((0, 1, 2) if failed else (0, 2))
        assert "Traceback" not in outcome.out + outcome.err
        if outcome.code == 2:
            *others, line = outcome.err.removesuffix("\n").split("\n")
            assert line.startswith("error: ")
            assert len(line) < LONGEST_LINE
            assert line.isprintable()
            assert own or not others, outcome.err
        assert outcome.memory < MEMORY
        assert self._there() == before
        return outcome

    def _there(self) -> dict[str, tuple[int, int]]:
        """Everything around but what is in --out, and for files their sizes and times."""
        found = {}
        for path in self.root.rglob("*"):
            if not path.is_relative_to(self.work / "out"):
                stat = path.lstat()
                found[str(path)] = (stat.st_size, stat.st_mtime_ns) if path.is_file() else (0, 0)
        return found


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory, own_cache: Path) -> Iterator[Ground]:
    found = Ground(tmp_path_factory.mktemp("fuzz"), own_cache)
    yield found
    found.commands.close()


Check = Callable[[Any], None]


@pytest.fixture
def all_of(request: pytest.FixtureRequest) -> Callable[[int, st.SearchStrategy[Any], Check], None]:
    """Try a share, in thousandths, of the examples that there are in all."""

    def run(share: int, examples: st.SearchStrategy[Any], check: Check) -> None:
        count = max(1, request.config.getoption("--fuzz") * share // 1000)

        @settings(max_examples=count, suppress_health_check=list(HealthCheck), database=None)
        @given(examples)
        def each(example: Any) -> None:
            check(example)

        each()

    return run


def scaled_files(text: str, others: list[str]) -> st.SearchStrategy[tuple[bytes, str]]:
    """Files that were made wrong, mostly ours and sometimes one that comes with fedbench, and a scale.

    Scale paper is for ours alone: a dry run probes each model, which rightly takes minutes and gigabytes for those of
    the paper.
    """
    mine = st.tuples(file_of(parsed(text), WORDS, text), st.sampled_from(["quick", "quick", "tiny", "paper"]))
    more = st.one_of([file_of(parsed(other), WORDS, other) for other in others])
    return st.one_of(mine, mine, mine, st.tuples(more, st.sampled_from(["quick", "tiny"])))


def test_study_files(ground: Ground, all_of: Any) -> None:
    def check(example: tuple[bytes, str]) -> None:
        content, scale = example
        (ground.fresh() / "mine.yaml").write_bytes(content)
        ground.run("study", "mine.yaml", "--dry-run", "--scale", scale, "--out", "out")

    all_of(150, scaled_files(STUDY, built_in("study")), check)


def test_space_files(ground: Ground, all_of: Any) -> None:
    def check(example: tuple[bytes, str]) -> None:
        content, scale = example
        (ground.fresh() / "mine.yaml").write_bytes(content)
        ground.run("search", "mine.yaml", "--dry-run", "--scale", scale, "--out", "out")

    all_of(130, scaled_files(SPACE, built_in("space")), check)


def test_config_files(ground: Ground, all_of: Any) -> None:
    def check(content: bytes) -> None:
        (ground.fresh() / "c.yaml").write_bytes(content)
        ground.run("trial", "--config", "c.yaml", "--show")

    all_of(150, file_of(parsed(CONFIG), WORDS, CONFIG), check)


def test_settings_in_options(ground: Ground, all_of: Any) -> None:
    def check(example: tuple[str, list[str]]) -> None:
        command, given_ = example
        (ground.fresh() / "mine.yaml").write_text(STUDY if command == "study" else SPACE)
        line = ["trial", "--show"] if command == "trial" else [command, "mine.yaml", "--dry-run", "--out", "out"]
        ground.run(*line, *(part for text in given_ for part in ("--set", text)))

    commands = st.sampled_from(["trial", "trial", "study", "search"])
    all_of(170, st.tuples(commands, st.lists(SETTINGS, min_size=1, max_size=3)), check)


def test_other_options(ground: Ground, all_of: Any) -> None:
    def check(example: tuple[str, list[str]]) -> None:
        command, given_ = example
        (ground.fresh() / "mine.yaml").write_text(STUDY if command == "study" else SPACE)
        ground.run(command, "mine.yaml", "--dry-run", "--out", "out", *given_)

    both = st.tuples(st.just("study"), options(OPTIONS)) | st.tuples(st.just("search"), options(OPTIONS | SEARCHED))
    all_of(100, both, check)


def test_runs_at_the_ends_of_what_settings_may_be(ground: Ground, all_of: Any) -> None:
    def check(given_: list[str]) -> None:
        ground.fresh()
        ground.run("trial", *given_, "--out", "out", failed=True)

    all_of(55, runs(), check)


def test_data_files(ground: Ground, all_of: Any) -> None:
    def check(example: tuple[str, dict[str, bytes | str]]) -> None:
        name, content = example
        work = ground.fresh()
        (work / "own_set.py").write_text(OWN_SET)
        (work / "data").mkdir()
        lay_out(work / "data" / SETS[name][0], content)
        ground.run("data", "check", name, "--data-dir", "data", "--import", "own_set")

    all_of(100, data_files(), check)


def test_plugins(ground: Ground, all_of: Any) -> None:
    def check(content: bytes) -> None:
        (ground.fresh() / "own.py").write_bytes(content)
        own = ["method.name=own_rule", "data.partition=own_pieces", "indicators.own_look=true"]
        line = [*FEW, *(part for setting in own for part in ("--set", setting))]
        ground.run("trial", "--import", "own", *line, "--out", "out", failed=True, own=True)

    all_of(80, plugins(), check)


def test_names_of_new_things(ground: Ground, all_of: Any) -> None:
    def check(example: tuple[str, str]) -> None:
        ground.fresh()
        ground.run("new", *map(typed, example), "--to", "out")

    kinds = st.sampled_from(["method", "model", "dataset", "partition", "indicator", "study"]) | ODD_WORDS
    names = st.one_of(ODD_WORDS, st.from_regex(r"[a-z_.]{1,9}", fullmatch=True), st.sampled_from(WORDS).map(str))
    all_of(50, st.tuples(kinds, names), check)


def stored_trials(out: Path) -> Path:
    """The trials of the study, run."""
    (out / "mine.yaml").write_text(STUDY)
    study = expand(str(out / "mine.yaml"), "quick", changes={}, only={}, seeds=None)
    for config in study.trials.values():
        execute(config, Store(out), None)
    return out / "trials"


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stored_trials(tmp_path_factory.mktemp("stored"))


def test_reports_of_study_files(ground: Ground, all_of: Any, stored: Path) -> None:
    shown = {
        key: value for key, value in parsed(STUDY).items() if key not in ("base", "grid", "seeds", "scales", "skip")
    }
    rest = {key: value for key, value in parsed(STUDY).items() if key not in shown}

    def check(example: tuple[Any, str]) -> None:
        content, plots = example
        content = {**rest, **content} if isinstance(content, dict) else content
        if plots == "none" and isinstance(content, dict):
            content.pop("plots", None)
        work = ground.fresh()
        (work / "out").mkdir()
        (work / "out" / "trials").symlink_to(stored)
        (work / "mine.yaml").write_bytes(flow(content).encode("utf-8", "surrogatepass"))
        ground.run("report", "mine.yaml", "--out", "out", "--check")

    all_of(15, st.tuples(damaged(shown, WORDS), st.sampled_from(["none", "none", "none", "drawn"])), check)
