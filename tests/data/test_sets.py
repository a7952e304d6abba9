import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fedbench import TrialConfig, UserError
from fedbench.data.base import DATASETS, Arrays, Dataset, register_dataset
from fedbench.data.sets.cifar import CIFAR10, CIFAR100
from fedbench.simulation.federation import load_arrays
from fedbench.templates import write
from tests.commands import data as main


def test_the_embedded_set_is_4000_and_1000_digits_evenly_over_the_classes() -> None:
    arrays = load_arrays(DATASETS.get("mnist5k"), None)
    assert np.bincount(arrays.train_labels).tolist() == [400] * 10
    assert np.bincount(arrays.test_labels).tolist() == [100] * 10
    train = {image.tobytes() for image in arrays.train_images}
    assert not any(image.tobytes() in train for image in arrays.test_images)
    assert arrays.train_images.max() == 255


@pytest.mark.parametrize(
    ("layouts", "key", "label_bytes"), [(CIFAR10, "labels", 1), (CIFAR100, "fine_labels", 2)], ids=["10", "100"]
)
def test_both_cifar_layouts_parse_to_the_same_arrays(layouts: tuple, key: str, label_bytes: int) -> None:  # type: ignore[type-arg]
    parsed = []
    for layout in layouts:
        content = {}
        for number, name in enumerate(layout.files):
            planes = np.random.default_rng(number).integers(0, 256, (3, 3072), dtype=np.uint8)
            labels = np.random.default_rng(number + 50).integers(0, 10, (3, label_bytes), dtype=np.uint8)
            if name.endswith(".bin"):
                content[name] = np.hstack([labels, planes]).tobytes()
            else:
                content[name] = pickle.dumps({"data": planes, key: labels[:, -1].tolist()})
        parsed.append(layout.read(content))
    for one, other in zip(*parsed, strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize(
    "name", ["fashion_mnist", "cifar10", "cifar100", "mnist", "svhn", "emnist_letters", "tiny_imagenet"]
)
def test_a_missing_set_is_a_clear_error(name: str, tmp_path: Path, command, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    dataset = DATASETS.get(name)
    monkeypatch.setitem(dataset.load.__dict__, "system", ())
    monkeypatch.setenv("FEDBENCH_CACHE", str(tmp_path / "cache"))
    code, _, error = command(main, "check", name, "--data-dir", str(tmp_path))
    assert code == 2
    assert str(tmp_path) in error
    assert len(error.strip().splitlines()) == 1


def test_get_and_check_verify_the_embedded_set(command) -> None:  # type: ignore[no-untyped-def]
    for action in ("get", "check"):
        code, out, _ = command(main, action, "mnist5k")
        assert code == 0
        assert "4000 train and 1000 test images" in out


def test_check_reads_the_digits_themselves_not_the_cache(command, own_cache: Path) -> None:  # type: ignore[no-untyped-def]
    load_arrays(DATASETS.get("mnist5k"), None)
    (folder,) = (own_cache / "arrays").glob("mnist5k-*")
    changed = np.load(folder / "test_labels.npy", mmap_mode="c")
    changed[:] = 77
    assert int(load_arrays(DATASETS.get("mnist5k"), None).test_labels.max()) == 9
    code, _, _ = command(main, "check", "mnist5k")
    assert code == 0


def test_digits_other_than_the_known_ones_are_refused(command, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr("fedbench.data.sets.mnist5k.SHA256", "0" * 64)
    code, _, error = command(main, "check", "mnist5k")
    assert code == 2
    assert "expected 000000000000" in error


def test_an_unknown_set_gets_the_nearest_name(command) -> None:  # type: ignore[no-untyped-def]
    code, _, error = command(main, "check", "cifar")
    assert code == 2
    assert "did you mean 'cifar10'?" in error


def test_a_set_that_does_not_match_its_description_is_refused() -> None:
    def load(data_dir: Path | None) -> Arrays:
        return Arrays(
            np.zeros((4, 2, 2, 1), np.uint8), np.zeros(4, np.int64), np.zeros((2, 2, 2, 1), np.uint8), np.full(2, 9)
        )

    with pytest.raises(UserError, match="expected uint8"):
        load_arrays(Dataset("odd", (1, 2, 2), 2, 5, 2, load), None)
    with pytest.raises(UserError, match="test label lies outside"):
        load_arrays(Dataset("odd", (1, 2, 2), 2, 4, 2, load), None)


def test_a_set_from_outside_is_used_by_its_name() -> None:
    base = DATASETS.get("mnist5k")
    register_dataset(Dataset("my-digits", (1, 28, 28), 10, 4000, 1000, base.load, defaults=base.defaults), "1")
    assert TrialConfig(**{"data.name": "my-digits"}).rounds == 50


def test_a_set_that_is_imported_is_checked_like_any_other(forgotten, command, tmp_path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    write("dataset", "door_squares", tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    code, _, error = command(main, "check", "door_squares")
    assert (code, "unknown data set 'door_squares'" in error) == (2, True)
    for action in ("get", "check"):
        code, out, _ = command(main, action, "door_squares", "--import", "door_squares")
        assert code == 0
        assert "door_squares: 1000 train and 200 test images of 1x8x8, 4 classes, as they should be" in out


def test_a_set_of_an_installed_package_needs_no_import(tmp_path: Path) -> None:
    write("dataset", "installed_squares", tmp_path)
    package = tmp_path / "squares-1.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: squares\nVersion: 1\n")
    (package / "entry_points.txt").write_text("[fedbench.plugins]\nsquares = installed_squares\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    result = subprocess.run(
        [sys.executable, "-m", "fedbench.data", "check", "installed_squares"],
        env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert result.stdout.startswith("installed_squares: 1000 train and 200 test images"), result.stderr
