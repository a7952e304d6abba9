"""Data sets from a file of arrays."""

import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedbench import Simulation, TrialConfig, UserError
from fedbench.data.official import cache_dir
from fedbench.data.own import dataset_of, describe, read_arrays
from fedbench.simulation.federation import build_federation, check_data, load_arrays
from tests.commands import data as main

Parts = dict[str, Any]


def pixels(train: int = 60, test: int = 20, size: int = 4) -> Parts:
    """Images of three classes: the larger the label, the brighter."""
    rng = np.random.default_rng(0)

    def images(count: int) -> tuple[Any, Any]:
        labels = np.arange(count) % 3
        return rng.integers(0, 60, (count, size, size), dtype=np.uint8) + (80 * labels[:, None, None]).astype(
            "u1"
        ), labels

    (x, y), (x_test, y_test) = images(train), images(test)
    owners = {"owner": np.arange(train) // 3 % 5, "owner_test": np.arange(test) // 3 % 5}
    return {"x": x, "y": y, "x_test": x_test, "y_test": y_test, **owners}


def saved(folder: Path, parts: Parts, name: str = "mine.npz") -> str:
    np.savez(folder / name, **parts)
    return str(folder / name)


def config(path: str, **settings: Any) -> TrialConfig:
    small = {"clients.count": 3, "clients.batch_size": 4, "rounds": 2, "proxy.size": 3, "data.partition": "iid"}
    return TrialConfig(**{"data.name": "file", "data.path": path, **small, **settings})


def test_what_is_in_a_file_is_found(tmp_path: Path) -> None:
    dataset = config(saved(tmp_path, pixels())).dataset
    assert (dataset.shape, dataset.num_classes, dataset.kind) == ((1, 4, 4), 3, "uint8")
    assert (dataset.train_size, dataset.test_size, dataset.owners) == (60, 20, 5)


def test_every_layout_of_the_same_arrays_is_the_same_experiment(tmp_path: Path) -> None:
    parts = pixels()
    npz = saved(tmp_path, parts)
    (tmp_path / "folder").mkdir()
    for name, part in parts.items():
        np.save(tmp_path / "folder" / f"{name}.npy", part)
    other = saved(tmp_path, parts, "another_name.npz")
    hashes = {config(path).hash for path in (npz, str(tmp_path / "folder"), other)}
    assert len(hashes) == 1
    changed = {**parts, "x": parts["x"].copy()}
    changed["x"][0, 0, 0] ^= 1
    assert config(saved(tmp_path, changed, "changed.npz")).hash not in hashes


@pytest.mark.parametrize("lists", [True, False])
def test_parquet_has_a_column_of_lists_or_one_a_feature(tmp_path: Path, lists: bool) -> None:
    x = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    table = pd.DataFrame({"y": np.arange(40) % 2, "owner": [f"user {i % 4}" for i in range(40)]})
    table["test"] = np.arange(40) >= 32
    columns = {"x": list(x)} if lists else {f"feature {i}": list(x[:, i].astype(float)) for i in range(3)}
    for name, values in columns.items():
        table[name] = values
    table.to_parquet(tmp_path / "mine.parquet")
    arrays, kind = read_arrays(tmp_path / "mine.parquet")
    assert kind == "float32" and (arrays.train_images[:, 0, :, 0] == x[:32]).all()
    assert arrays.owner is not None and arrays.owner_test is not None
    assert (arrays.owner == np.arange(32) % 4).all() and (arrays.owner_test == np.arange(32, 40) % 4).all()


def test_a_run_learns_from_images_numbers_and_tokens(tmp_path: Path) -> None:
    parts = pixels(120, 30)
    flat = {f"x{part}": parts[f"x{part}"].reshape(-1, 16) for part in ("", "_test")}
    kinds: dict[str, Parts] = {
        "pixels": {},
        "colour": {name: np.stack([parts[name]] * 3, -1) for name in flat},
        "numbers": {name: (x / 100 - 1).astype(np.float32) for name, x in flat.items()},
        "tokens": {name: x.astype(np.int64) // 10 for name, x in flat.items()},
    }
    for name, changes in kinds.items():
        settings = {"rounds": 12, "clients.epochs": 2, "clients.lr": 0.03}
        run = Simulation(config(saved(tmp_path, {**parts, **changes}, f"{name}.npz"), **settings))
        last = [run.step() for _ in range(12)][-1]
        assert last.test_accuracy is not None and last.test_accuracy > 0.9, name


def test_owners_are_clients_under_the_natural_partition(tmp_path: Path) -> None:
    natural = config(saved(tmp_path, pixels()), **{"data.partition": "natural", "clients.count": 5})
    federation = build_federation(natural, None, Simulation(natural).device)
    assert sorted(map(len, federation.split.shards)) == [12] * 5
    tests = [federation.client_test(client) for client in range(5)]
    assert sum(len(test) for test in tests if test is not None) == len(federation.test)


def test_a_fifth_is_set_aside_where_there_is_no_test_set(tmp_path: Path) -> None:
    parts = {name: part for name, part in pixels(100).items() if not name.endswith("_test")}
    arrays, _ = read_arrays(Path(saved(tmp_path, parts)))
    assert arrays.owner is not None and arrays.owner_test is not None
    assert len(arrays.test_labels) == 20 and len(arrays.train_labels) == 80
    assert np.bincount(arrays.owner_test).tolist() == [4] * 5
    together = np.concatenate([arrays.train_images, arrays.test_images])[..., 0]
    assert sorted(image.tobytes() for image in together) == sorted(image.tobytes() for image in parts["x"])


def test_a_stored_config_needs_the_file_no_more_once_its_arrays_are_cached(tmp_path: Path) -> None:
    path = saved(tmp_path, pixels())
    first = config(path)
    Path(path).unlink()
    again = TrialConfig(**first.plain())
    assert again.hash == first.hash and again.dataset.shape == (1, 4, 4)
    check_data([again], None)
    shutil.rmtree(cache_dir() / "arrays")
    with pytest.raises(UserError, match="is not there"):
        load_arrays(again.dataset, None)


def test_a_file_that_has_changed_is_not_taken_for_the_one_of_a_stored_config(tmp_path: Path) -> None:
    path = saved(tmp_path, pixels())
    first = config(path)
    shutil.rmtree(cache_dir() / "arrays")
    saved(tmp_path, pixels(63))
    with pytest.raises(UserError, match="has changed since"):
        load_arrays(first.dataset, None)
    assert config(path).hash != first.hash


def test_a_relative_path_is_found_here_or_in_the_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved(tmp_path, pixels())
    monkeypatch.chdir(tmp_path)
    here = config("mine.npz")
    assert here.data.path == str(tmp_path / "mine.npz")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    with pytest.raises(UserError, match=r"mine.npz: is not there; looked in"):
        config("mine.npz")
    monkeypatch.setenv("FEDBENCH_DATA", str(tmp_path))
    assert config("mine.npz").hash == here.hash


def test_check_says_what_is_in_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", saved(tmp_path, pixels())]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "60 train and 20 test images of 1x4x4, 3 classes, 5 owners" in said


def nan(x: Any) -> Any:
    x = x.astype(np.float32)
    x[3, 0, 0] = np.nan
    return x


WRONG: dict[str, tuple[Callable[[Parts], Parts], str]] = {
    "no y": (lambda p: {"x": p["x"]}, "has no array y"),
    "typing error": (lambda p: {**p, "owners": p["owner"]}, "unknown array 'owners'; did you mean 'owner'"),
    "NaN": (lambda p: {**p, "x": nan(p["x"]), "x_test": p["x_test"].astype("f4")}, "x: 1 samples have NaN"),
    "doubles": (lambda p: {**p, "x": p["x"] / 2}, "x is float64; must be uint8, float32"),
    "integer images": (lambda p: {**p, "x": p["x"].astype(int)}, r"x is int64 .*; must be uint8 or float32"),
    "negative tokens": (lambda p: {**p, "x": p["x"].reshape(60, 16).astype(int) - 9}, "tokens are -9"),
    "one dimension": (lambda p: {**p, "x": p["x"][:, 0, 0]}, r"x has shape \(60,\); must be \[N, D\]"),
    "channels first": (
        lambda p: {**p, "x": np.zeros((60, 3, 8, 8), "u1"), "x_test": np.zeros((20, 3, 8, 8), "u1")},
        "channels first",
    ),
    "other shape": (lambda p: {**p, "x_test": p["x_test"][:, :2]}, r"x_test is uint8 \(20, 2, 4\); must be like x"),
    "other kind": (lambda p: {**p, "x_test": p["x_test"].astype("f4")}, "x_test is float32 .*; must be like x"),
    "fewer labels": (lambda p: {**p, "y": p["y"][:-1]}, r"y has shape \(59,\); must be \(60,\)"),
    "float labels": (lambda p: {**p, "y": p["y"] / 1}, "y is float64; labels must be whole numbers"),
    "labels from 1": (lambda p: {**p, "y": p["y"] + 1}, "no sample has label 0"),
    "negative label": (lambda p: {**p, "y": p["y"] - 1}, "label -1 is out of range"),
    "huge label": (lambda p: {**p, "y": p["y"] + 2**60 * (p["y"] == 2)}, "is out of range"),
    "one class": (lambda p: {**p, "y": p["y"] * 0}, "must have at least two classes"),
    "unknown test label": (lambda p: {**p, "y_test": p["y_test"] + 1}, "y_test: label 3 is out of range"),
    "no y_test": (lambda p: {k: v for k, v in p.items() if k != "y_test"}, "has one of x_test and y_test"),
    "fewer owners": (lambda p: {**p, "owner": p["owner"][1:]}, r"owner has shape \(59,\); must be \(60,\)"),
    "owners missing": (lambda p: {**p, "owner": p["owner"] - 1}, "owner: 12 samples have no owner"),
    "owners NaN": (
        lambda p: {**p, "owner": p["owner"] / 0.5},
        "owner is float64; owners must be whole numbers or names",
    ),
    "owner_test alone": (
        lambda p: {k: v for k, v in p.items() if k != "owner"},
        "has owner_test; must then have owner",
    ),
    "names and numbers": (lambda p: {**p, "owner": p["owner"].astype(str)}, "must both be numbers or both be names"),
    "objects": (lambda p: {**p, "x": np.array([{}] * 60)}, "pickled Python objects"),
    "nothing": (lambda p: {**p, "x": p["x"][:0], "y": p["y"][:0]}, r"x has shape \(0, 4, 4\)"),
}


@pytest.mark.parametrize("name", WRONG)
def test_whatever_is_wrong_with_the_arrays_is_one_line(tmp_path: Path, name: str) -> None:
    change, message = WRONG[name]
    with pytest.raises(UserError, match=message) as caught:
        config(saved(tmp_path, change(pixels())))
    assert "\n" not in str(caught.value) and "mine.npz" in str(caught.value)


class Trap:
    """Something that would leave a file behind if it were unpickled."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __reduce__(self) -> Any:
        return Path.touch, (self.place,)


@pytest.mark.parametrize("name", ["mine.npz", "mine.npy", "x.npy", "mine.parquet"])
def test_nothing_is_unpickled_and_what_is_no_such_file_is_one_line(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / name).write_bytes(pickle.dumps(Trap(tmp_path / "sprung")))
    (folder / "y.npy").write_bytes(b"")
    for path in (folder, folder / name):
        with pytest.raises(UserError) as caught:
            config(str(path))
        assert "\n" not in str(caught.value)
    assert not (tmp_path / "sprung").exists()


@given(cut=st.integers(0, 400))
def test_a_file_that_is_cut_off_is_one_line(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    path = tmp_path_factory.getbasetemp() / "cut.npz"
    np.savez(path, **pixels(6, 3, 2))
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(UserError, match=r"cut\.npz"):
        describe(path)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"data.name": "file"}, "data.path = None: must be the path"),
        ({"data.name": "file", "data.path": 3}, "data.path = 3: must be the path"),
        ({"data.name": "file", "data.path": "/dev/null"}, "neither a file nor a folder"),
        ({"data.name": "mnist5k", "data.path": "mine.npz"}, "only data.name=file reads a file"),
        ({"data.name": "file", "data.path": "mine.npz", "data.content": "nonsense"}, "leave it out"),
    ],
)
def test_wrong_settings_are_one_line(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        TrialConfig(**settings)


def test_the_description_and_the_arrays_agree(tmp_path: Path) -> None:
    path = saved(tmp_path, pixels())
    arrays = load_arrays(dataset_of("file", path), None)
    assert arrays.digest() == describe(Path(path))[:64]
