import gzip
import hashlib
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from fedbench.base.errors import UserError
from fedbench.data.base import Arrays
from fedbench.data.official import Layout, Official, cached, find, read


def parse(blobs: Mapping[str, bytes]) -> Arrays:
    images = np.frombuffer(blobs["images"], np.uint8).reshape(-1, 1, 1, 1)
    labels = np.frombuffer(blobs["labels"], np.uint8).astype(np.int64)
    return Arrays(images, labels, images, labels)


def md5(blob: bytes) -> str:
    return hashlib.md5(blob).hexdigest()


LAYOUT = Layout(("set",), {"images": (md5(b"\1\2\3"),), "labels": (md5(b"\0\1\2"),)}, parse)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    folder = tmp_path / "set"
    folder.mkdir()
    (folder / "images").write_bytes(b"\1\2\3")
    (folder / "labels.gz").write_bytes(gzip.compress(b"\0\1\2"))
    return tmp_path


def load(root: Path) -> Arrays:
    return Official("own", [LAYOUT], "NoSuchSet")(root)


def test_plain_and_gzipped_files_are_read_and_verified(files: Path) -> None:
    assert load(files).train_labels.tolist() == [0, 1, 2]


def test_nothing_found_is_none_and_a_part_names_what_is_missing(files: Path, tmp_path: Path) -> None:
    assert find([LAYOUT], [tmp_path / "elsewhere"]) is None
    (files / "set" / "images").unlink()
    assert find([LAYOUT], [files]) is None
    with pytest.raises(UserError, match="images is missing"):
        find([LAYOUT], [files], strict=True)


@pytest.mark.parametrize("damage", [b"", b"\1\2", b"\1\2\4"])
def test_a_truncated_or_altered_file_is_named_even_after_it_was_cached(files: Path, damage: bytes) -> None:
    load(files)
    path = files / "set" / "images"
    path.write_bytes(damage)
    with pytest.raises(UserError, match="not that of the official file") as raised:
        load(files)
    assert str(path) in str(raised.value)


def test_a_truncated_gzip_file_is_named(files: Path) -> None:
    path = files / "set" / "labels.gz"
    path.write_bytes(path.read_bytes()[:-6])
    with pytest.raises(UserError, match="truncated") as raised:
        load(files)
    assert str(path) in str(raised.value)


def test_a_bomb_is_not_unpacked_and_a_huge_file_not_read(files: Path) -> None:
    source = Official("own", [replace(LAYOUT, largest=10**6)], "NoSuchSet")
    (files / "set" / "labels.gz").write_bytes(gzip.compress(bytes(2**24)) * 50)  # 800 MiB of zeros
    with pytest.raises(UserError, match=r"labels\.gz: cannot be read, .* \(its content has more than 1000000 bytes\)"):
        source(files)
    os.truncate(files / "set" / "images", 2**40)
    with pytest.raises(UserError, match=r"images: cannot be read, .* More than 1000000 bytes"):
        source(files)


def test_a_set_that_is_nowhere_says_where_it_looked_and_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDBENCH_DATA", str(tmp_path / "b"))
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    source = Official("own", [LAYOUT], "NoSuchSet", system=[tmp_path / "c"])
    with pytest.raises(UserError) as raised:
        source.find(tmp_path / "a", download=False)
    for part in ("a", "b", "c"):
        assert str(tmp_path / part) in str(raised.value)
    assert "DIR/set/ (images, labels)" in str(raised.value)
    assert "--data-dir" in str(raised.value)


def test_a_part_in_the_cache_does_not_stop_the_search(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cache" / "downloads" / "set").mkdir(parents=True)
    (tmp_path / "cache" / "downloads" / "set" / "images").write_bytes(b"cut off")
    monkeypatch.setenv("FEDBENCH_CACHE", str(tmp_path / "cache"))
    assert Official("own", [LAYOUT], "NoSuchSet", system=[files]).find(None, download=False).folder == files / "set"


def test_a_data_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="is not a folder"):
        load(tmp_path / "file")


def test_a_failed_download_leaves_no_folder_behind(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="download"):
        Official("own", [LAYOUT], "NoSuchSet").verify(tmp_path / "new" / "folder", download=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("by", ["argument", "variable"])
def test_a_named_folder_that_is_not_there_is_refused_where_there_is_another_copy(
    files: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    gone = files / "nowhere"
    if by == "variable":
        monkeypatch.setenv("FEDBENCH_DATA", str(gone))
    source = Official("own", [LAYOUT], "NoSuchSet", system=[files])
    for find_or_load in (source, lambda folder: source.find(folder, download=False)):
        with pytest.raises(UserError) as raised:
            find_or_load(gone if by == "argument" else None)
        what = "data folder" if by == "argument" else "$FEDBENCH_DATA"
        assert str(raised.value) == f"{what} {gone}: does not exist; name the folder that contains the data sets"


@pytest.mark.parametrize("by", ["argument", "variable"])
def test_a_warning_names_the_folder_that_is_used_where_the_named_one_has_no_such_set(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    if by == "variable":
        monkeypatch.setenv("FEDBENCH_DATA", str(other))
    source = Official("own", [LAYOUT], "NoSuchSet", system=[files])
    with pytest.warns(UserWarning) as warned:
        source(other if by == "argument" else None)
    told = f"data set 'own' is not in the data folder {other}; that in {files / 'set'} is used"
    assert [str(warning.message) for warning in warned] == [told]


@pytest.fixture
def torchvision(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A torchvision that has one data set, which it puts where it is told."""

    def own(root: str, download: bool) -> None:
        folder = Path(root, "set")
        folder.mkdir()
        (folder / "images").write_bytes(b"\1\2\3")
        (folder / "labels").write_bytes(b"\0\1\2")

    package, datasets = ModuleType("torchvision"), ModuleType("torchvision.datasets")
    package.datasets, datasets.Own = datasets, own  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torchvision", package)
    monkeypatch.setitem(sys.modules, "torchvision.datasets", datasets)
    return datasets


def test_a_download_is_put_in_place_and_what_was_there_before_is_completed(
    tmp_path: Path, torchvision: ModuleType
) -> None:
    for there in ([], ["images"], ["images", "labels"]):
        root = tmp_path / str(len(there))
        for name in there:
            (root / "set").mkdir(parents=True, exist_ok=True)
            (root / "set" / name).write_bytes(b"cut off")
        Official("own", [LAYOUT], "Own")._download(root)
        assert load(root).train_labels.tolist() == [0, 1, 2]
        assert sorted(path.name for path in root.rglob("*")) == ["images", "labels", "set"]


def test_files_at_addresses_are_downloaded_into_the_first_folder(
    tmp_path: Path, torchvision: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = {"https://nowhere/images": b"\1\2\3", "https://nowhere/labels": b"\0\1\2"}

    def download_url(url: str, root: str) -> None:
        Path(root).mkdir(exist_ok=True)
        Path(root, url.rpartition("/")[2]).write_bytes(content[url])

    monkeypatch.setattr(torchvision, "utils", SimpleNamespace(download_url=download_url), raising=False)
    source = Official("own", [LAYOUT], urls=list(content))
    with pytest.raises(
        UserError, match=r"put the official files \(https://nowhere/images, https://nowhere/labels\) into"
    ):
        source.find(tmp_path, download=False)
    assert source(tmp_path).train_labels.tolist() == [0, 1, 2]
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["images", "labels", "set"]


def test_a_download_that_breaks_off_while_it_is_put_in_place_leaves_no_part_of_it(
    tmp_path: Path, torchvision: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(root: str, download: bool) -> None:
        complete(root, download)
        Path(root, "set", "notes").symlink_to("nowhere")  # which cannot be copied

    complete = torchvision.Own
    monkeypatch.setattr(torchvision, "Own", broken)
    source = Official("own", [LAYOUT], "Own")
    with pytest.raises(UserError, match="the download failed"):
        source(tmp_path)
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(torchvision, "Own", complete)
    assert source(tmp_path).train_labels.tolist() == [0, 1, 2]


def test_the_cache_is_shared_read_and_never_written_through(files: Path) -> None:
    found = find([LAYOUT], [files])
    assert found
    paths = list(found.paths.values())
    calls = []

    def once() -> Arrays:
        calls.append(1)
        return read(found)

    first = cached("once", paths, once)
    first.train_images[0] = 99
    second = cached("once", paths, once)
    assert len(calls) == 1
    assert second.train_images.reshape(-1).tolist() == [1, 2, 3]


def test_a_damaged_cache_is_read_anew(files: Path, own_cache: Path) -> None:
    found = find([LAYOUT], [files])
    assert found
    paths = list(found.paths.values())
    cached("damaged", paths, lambda: read(found))
    for damage in (b"nonsense", b""):
        cached("damaged", paths, lambda: read(found))
        (folder,) = (own_cache / "arrays").glob("damaged-*")
        (folder / "train_images.npy").write_bytes(damage)
        assert cached("damaged", paths, lambda: read(found)).train_labels.tolist() == [0, 1, 2]


def test_without_a_cache_folder_arrays_stay_in_memory(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("")
    monkeypatch.setenv("FEDBENCH_CACHE", str(blocker / "below"))
    with pytest.warns(UserWarning, match="no array cache"):
        assert load(files).train_labels.tolist() == [0, 1, 2]
