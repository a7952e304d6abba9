"""Data sets that are too large to be had here, on tiny files in their official layouts."""

import gzip
import hashlib
import io
import sys
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from fedbench.base.errors import UserError
from fedbench.data.base import DATASETS, Arrays
from fedbench.data.official import Layout, Official
from fedbench.data.sets import emnist, mnist, svhn, tiny_imagenet
from tests.commands import data as main
from tests.data.test_readers import idx_bytes

Command = Callable[..., tuple[int, str, str]]
RNG = np.random.default_rng(0)
NEW = ("mnist", "svhn", "emnist_balanced", "emnist_digits", "emnist_letters", "tiny_imagenet")


def images(*shape: int) -> np.ndarray:
    return RNG.integers(0, 256, shape, dtype=np.uint8)


def loaded(layout: Layout, files: Mapping[str, bytes], root: Path) -> Arrays:
    """What is read of files in the first folder of a layout, verified by sums of these files."""
    folder = root / layout.folders[0]
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    sums = {name: (hashlib.md5(files[name]).hexdigest(),) for name in layout.files}
    return Official("own", [replace(layout, files=sums)])(root)


def zipped(members: Mapping[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return stream.getvalue()


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzipped"])
def test_mnist_is_read_from_its_four_idx_files(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    x, y = {"train": images(3, 28, 28), "t10k": images(2, 28, 28)}, {"train": [1, 0, 9], "t10k": [3, 3]}
    files = {}
    for part in x:
        files[f"{part}-images-idx3-ubyte"] = idx_bytes(x[part])
        files[f"{part}-labels-idx1-ubyte"] = idx_bytes(np.array(y[part], np.uint8))
    folder = tmp_path / "MNIST" / "raw"  # as torchvision has it
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / f"{name}{'.gz' if pack is gzip.compress else ''}").write_bytes(pack(content))
    sums = {name: (hashlib.md5(files[name]).hexdigest(),) for name in mnist.LAYOUT.files}
    arrays = Official("own", [replace(mnist.LAYOUT, files=sums)])(tmp_path)
    assert np.array_equal(arrays.train_images[..., 0], x["train"]) and arrays.train_labels.tolist() == y["train"]
    assert np.array_equal(arrays.test_images[..., 0], x["t10k"]) and arrays.test_labels.tolist() == y["t10k"]


def test_svhn_is_read_from_matlab_files_whose_label_10_is_the_digit_0(tmp_path: Path) -> None:
    x, files = {}, {}
    for name, labels in ((svhn.TRAIN, [1, 10, 9]), (svhn.TEST, [10, 2])):
        x[name] = images(32, 32, 3, len(labels))
        stream = io.BytesIO()
        savemat(stream, {"X": x[name], "y": np.array(labels, np.uint8)[:, None]}, do_compression=True)
        files[name] = stream.getvalue()
    arrays = loaded(svhn.LAYOUT, files, tmp_path)
    assert arrays.train_labels.tolist() == [1, 0, 9] and arrays.test_labels.tolist() == [0, 2]
    assert np.array_equal(arrays.train_images[1], x[svhn.TRAIN][..., 1])
    assert arrays.test_images.shape == (2, 32, 32, 3) and arrays.train_images.flags.c_contiguous


@pytest.mark.parametrize(("split", "first"), [("balanced", 0), ("digits", 0), ("letters", 1)])
def test_emnist_is_read_from_the_archive_turned_upright(tmp_path: Path, split: str, first: int) -> None:
    upright, members = {"train": images(3, 28, 28), "test": images(2, 28, 28)}, {}
    labels = {"train": [5, 0, 7], "test": [1, 2]}
    for part in upright:
        stored = idx_bytes(np.ascontiguousarray(upright[part].transpose(0, 2, 1)))
        given = idx_bytes(np.array(labels[part], np.uint8) + np.uint8(first))
        members[f"gzip/emnist-{split}-{part}-images-idx3-ubyte.gz"] = gzip.compress(stored)
        members[f"gzip/emnist-{split}-{part}-labels-idx1-ubyte.gz"] = gzip.compress(given)
    arrays = loaded(emnist.layout(split), {emnist.ARCHIVE: zipped(members)}, tmp_path)
    assert np.array_equal(arrays.train_images[..., 0], upright["train"])
    assert np.array_equal(arrays.test_images[..., 0], upright["test"])
    assert arrays.train_labels.tolist() == labels["train"] and arrays.test_labels.tolist() == labels["test"]


def jpeg(pixels: np.ndarray) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "JPEG", quality=95)
    return stream.getvalue()


def tiny_archive(**changes: bytes) -> bytes:
    """Two classes, the first in wnids.txt being the second by name; one training image is grey."""
    plain = np.full((64, 64, 3), (200, 40, 90), np.uint8)
    members = {
        "wnids.txt": b"n02\nn01\n",
        "train/n01/images/n01_0.JPEG": jpeg(plain),
        "train/n01/n01_boxes.txt": b"n01_0.JPEG\t0\t0\t63\t63\n",
        "train/n02/images/n02_0.JPEG": jpeg(np.full((64, 64), 130, np.uint8)),
        "val/images/val_0.JPEG": jpeg(plain),
        "val/images/val_1.JPEG": jpeg(np.zeros((64, 64, 3), np.uint8)),
        "val/val_annotations.txt": b"val_1.JPEG\tn02\t0\t0\t9\t9\nval_0.JPEG\tn01\t0\t0\t9\t9\n",
        "test/images/test_0.JPEG": jpeg(plain),
    }
    return zipped({f"{tiny_imagenet.FOLDER}/{name}": content for name, content in {**members, **changes}.items()})


def test_tiny_imagenet_is_read_from_the_archive_with_its_validation_set_as_the_test_set(tmp_path: Path) -> None:
    arrays = loaded(tiny_imagenet.LAYOUT, {tiny_imagenet.ARCHIVE: tiny_archive()}, tmp_path)
    assert arrays.train_labels.tolist() == [1, 0] and arrays.test_labels.tolist() == [0, 1]
    assert arrays.train_images.shape == (2, 64, 64, 3)
    assert np.abs(arrays.train_images[0].astype(int) - (200, 40, 90)).max() <= 3
    assert np.abs(arrays.train_images[1].astype(int) - 130).max() <= 3, "a grey image has three equal colours"
    assert arrays.test_images[0].max() <= 3 and np.array_equal(arrays.test_images[1], arrays.train_images[0])


def test_without_pillow_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    blobs = {tiny_imagenet.ARCHIVE: tiny_archive()}
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(UserError, match="pip install pillow"):
        tiny_imagenet.LAYOUT.read(blobs)


def mat(**arrays: np.ndarray) -> bytes:
    stream = io.BytesIO()
    savemat(stream, arrays)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("layout", "name", "content", "message"),
    [
        (svhn.LAYOUT, svhn.TRAIN, b"", "train_32x32.mat: not a MATLAB file"),
        (svhn.LAYOUT, svhn.TRAIN, b"\0" * 600, "train_32x32.mat: not a MATLAB file"),
        (svhn.LAYOUT, svhn.TRAIN, mat(X=images(32, 32, 3, 2)), "not a MATLAB file with X and y"),
        (svhn.LAYOUT, svhn.TRAIN, mat(X=images(32, 32, 3, 2), y=np.array([[1], [2], [3]])), "for 3 labels"),
        (svhn.LAYOUT, svhn.TRAIN, mat(X=images(32, 32, 3, 1), y=np.array([[0]])), "labels are 0 ... 0"),
        (emnist.layout("digits"), emnist.ARCHIVE, b"PK", "not a zip archive"),
        (emnist.layout("digits"), emnist.ARCHIVE, zipped({"gzip/other": b""}), "is not in the archive"),
        (
            emnist.layout("digits"),
            emnist.ARCHIVE,
            zipped({"gzip/emnist-digits-train-images-idx3-ubyte.gz": b"no gzip"}),
            "cannot be unpacked",
        ),
        (tiny_imagenet.LAYOUT, tiny_imagenet.ARCHIVE, zipped({}), "wnids.txt: is not in the archive"),
        (tiny_imagenet.LAYOUT, tiny_imagenet.ARCHIVE, tiny_archive(**{"wnids.txt": b"n02\n"}), "n01 is not in wnids"),
        (
            tiny_imagenet.LAYOUT,
            tiny_imagenet.ARCHIVE,
            tiny_archive(**{"val/images/val_0.JPEG": jpeg(np.zeros((8, 8, 3), np.uint8))}),
            "not an image of 64x64",
        ),
        (
            tiny_imagenet.LAYOUT,
            tiny_imagenet.ARCHIVE,
            tiny_archive(**{"train/n01/images/n01_0.JPEG": b"no image"}),
            "cannot be decoded",
        ),
    ],
)
def test_a_file_that_is_no_such_set_is_one_line(layout: Layout, name: str, content: bytes, message: str) -> None:
    with pytest.raises(UserError, match=message) as raised:
        layout.read({file: content for file in layout.files})
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("name", NEW)
def test_files_without_the_published_sum_are_refused_before_they_are_parsed(
    name: str, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDBENCH_CACHE", str(tmp_path / "cache"))
    load = DATASETS.get(name).load
    assert isinstance(load, Official)
    (layout,) = load.layouts
    assert all(sums for sums in layout.files.values()), "every file has a published sum"
    folder = tmp_path / layout.folders[0]
    folder.mkdir(parents=True, exist_ok=True)
    for file in layout.files:
        (folder / file).write_bytes(b"something else")
    code, _, error = command(main, "check", name, "--data-dir", str(tmp_path))
    assert code == 2
    assert "is not that of the official file" in error and len(error.strip().splitlines()) == 1
