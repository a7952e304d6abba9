"""Checkpoints in a second place, from where another machine goes on."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fedbench import TrialConfig
from fedbench.simulation import Record, Simulation
from fedbench.simulation.checkpoint import Stopped, StopRequest
from fedbench.store.execute import execute
from fedbench.store.mirror import Mirror, check_place, forget, opened
from fedbench.store.store import Store
from tests.helpers import Hear

Tiny = Callable[..., TrialConfig]


@pytest.fixture(params=["file", "path", "memory"])
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A place of pyarrow's, a path, and one of fsspec's."""
    place = tmp_path / "there"
    yield check_place({"file": place.as_uri(), "path": str(place), "memory": "memory://there"}[request.param])
    files, path = opened("memory://there")
    files.delete_dir_contents(path, missing_dir_ok=True)


def run(config: TrialConfig, store: Store, uri: str, stop: int = 0) -> tuple[list[int], list[str]]:
    """Run a trial, until the end of a round if there is one to stop at; the rounds that it ran, and warnings."""
    rounds: list[int] = []
    warnings: list[str] = []
    sign = store.out / "stop"

    def heard(run: Simulation, seen: Record) -> None:
        rounds.append(seen.round)
        if seen.round == stop:
            sign.touch()

    store.prepare()
    folder = store.checkpoints(config.hash)
    with Mirror(uri, config.hash, folder, warnings.append) as mirror:
        execute(config, store, None, [Hear(heard), StopRequest(sign.exists, folder)], mirror=mirror)
    return rounds, warnings


def test_a_run_that_was_stopped_goes_on_on_another_machine(uri: str, tmp_path: Path, tiny: Tiny) -> None:
    config = tiny(rounds=5)
    with pytest.raises(Stopped):
        run(config, Store(tmp_path / "first"), uri, stop=2)
    files, path = opened(uri)
    (kept,) = files.get_file_info(_selector(f"{path}/{config.hash}"))
    assert kept.base_name == "round-000002.ckpt"
    assert run(config, Store(tmp_path / "second"), uri) == ([3, 4, 5], [])
    assert files.get_file_info(_selector(path)) == [], "what has ended needs no checkpoints"
    whole, halves = Store(tmp_path / "whole"), Store(tmp_path / "second")
    assert execute(config, whole, None).summary["final_accuracy"] == next(halves.all()).summary["final_accuracy"]


def _selector(path: str) -> object:
    from pyarrow.fs import FileSelector

    return FileSelector(path, allow_not_found=True)


def test_a_truncated_checkpoint_there_is_passed_over_and_written_again(tmp_path: Path, tiny: Tiny) -> None:
    config, place = tiny(rounds=4), tmp_path / "there"
    with pytest.raises(Stopped):
        run(config, Store(tmp_path / "first"), str(place), stop=2)
    (file,) = place.glob("*/round-*.ckpt")
    whole = file.read_bytes()
    file.write_bytes(whole[:100])
    with pytest.raises(Stopped):
        run(config, Store(tmp_path / "second"), str(place), stop=2)
    assert len(file.read_bytes()) == len(whole)


def test_a_place_that_fails_is_one_warning_and_the_run_goes_on(tmp_path: Path, tiny: Tiny) -> None:
    place = tmp_path / "there"
    place.write_text("a file, where a folder should be")
    rounds, warnings = run(tiny(rounds=3), Store(tmp_path / "out"), str(place))
    assert rounds == [1, 2, 3]
    assert len(warnings) <= 1
    with pytest.raises(Stopped):
        run(tiny(rounds=4), Store(tmp_path / "other"), str(place), stop=2)


def test_what_is_forgotten_is_run_from_the_start(uri: str, tmp_path: Path, tiny: Tiny) -> None:
    config = tiny(rounds=3)
    with pytest.raises(Stopped):
        run(config, Store(tmp_path / "first"), uri, stop=2)
    forget(uri, [config.hash, "not there"])
    assert run(config, Store(tmp_path / "second"), uri)[0] == [1, 2, 3]
