"""Data sets from a file of arrays, without any code: `data.name: file`, `data.path: mine.npz`.

`read_arrays` checks a file; `describe` gives what is in it, as the text that `data.content` holds; `dataset_of`
makes a `Dataset` out of that text, so that a config can be used where the file is not: in reports, and on other nodes.
"""

import re
import stat
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedbench.base.errors import ConfigError, UserError, unknown
from fedbench.base.files import located
from fedbench.base.rng import generator
from fedbench.data.base import DATASETS, Arrays, Dataset, Kind
from fedbench.data.classes import class_order
from fedbench.data.official import arrays_folder, cached_in

KEY, KINDS = "data.path", "the path of an .npz or .parquet file, or of a folder of .npy"
FILE = "file"  # the name of a data set that `data.path` holds
NAMES = ("x", "y", "owner", "x_test", "y_test", "owner_test")
TEST_SHARE = 5  # one sample in so many is a test sample where the file has no test set
LARGEST_VOCABULARY = 2**17
CONTENT = r"[0-9a-f]{64} (uint8|float32|tokens) \d+x\d+x\d+ classes=\d+ train=\d+ test=\d+ owners=\d+"

Array = NDArray[Any]


def dataset_of(name: Any, path: Any = None, content: Any = None) -> Dataset:
    """Return the data set that `data.name`, `data.path` and `data.content` name; the content is found if it is None."""
    if name != FILE:
        return DATASETS.get(name)
    if content is None:
        content = describe(located(KEY, path, KINDS))
    if not isinstance(content, str) or not re.fullmatch(CONTENT, content):
        raise ConfigError(f"data.content = {content!r}: fedbench writes it; leave it out")
    return _described(content, None if path is None else str(path))


@lru_cache
def _described(content: str, path: str | None) -> Dataset:
    _, kind, shape, *numbers = content.split()
    classes, train, test, owners = (int(number.partition("=")[2]) for number in numbers)
    channels, height, width = map(int, shape.split("x"))
    kinds: dict[str, Kind] = {"uint8": "uint8", "float32": "float32", "tokens": "tokens"}
    return Dataset(
        name=FILE,
        shape=(channels, height, width),
        num_classes=classes,
        train_size=train,
        test_size=test,
        load=FileSource(path, content),
        defaults={"model": "token_mean" if kind == "tokens" else "mlp"},
        kind=kinds[kind],
        owners=owners,
    )


@dataclass(frozen=True)
class FileSource:
    """The loader of a file with this content: from the array cache, or from the file itself."""

    path: str | None
    content: str

    def __call__(self, data_dir: Path | None) -> Arrays:
        """Return the arrays; UserError if the file is not there, or its content is another one."""
        return cached_in(self.folder, self._read)

    def verify(self, data_dir: Path | None, *, download: bool) -> tuple[Arrays, str]:
        """Read the file itself, past the cache."""
        return self._read(), str(located(KEY, self.path, KINDS))

    @property
    def folder(self) -> Path:
        """Where the arrays are cached."""
        return arrays_folder(FILE, self.content[:16])

    def _read(self) -> Arrays:
        arrays = read_arrays(located(KEY, self.path, KINDS))[0]
        if arrays.digest() != self.content.split()[0]:
            raise UserError(
                f"data.path = {self.path}: the file has changed since this config was made; leave data.content out to "
                "use its new content"
            )
        return arrays


def describe(path: Path) -> str:
    """Return what is in a file, as one line: digest, kind, shape, and numbers of classes, samples and owners."""
    files = sorted(path.glob("*.npy")) if path.is_dir() else [path]
    try:
        signs = [(file.name, info.st_size, info.st_mtime_ns) for file in files for info in [file.stat()]]
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from error
    return _content(path, tuple(signs))


@lru_cache
def _content(path: Path, signs: tuple[tuple[str, int, int], ...]) -> str:
    """Read a file once for each size and time of its files, and leave its arrays in the cache."""
    arrays, kind = read_arrays(path)
    digest = arrays.digest()
    cached_in(arrays_folder(FILE, digest[:16]), lambda: arrays)
    if kind == "tokens":
        vocabulary = 1 + int(max(part.max() for part in (arrays.train_images, arrays.test_images)))
        shape: tuple[int, ...] = (vocabulary, 1, arrays.train_images.shape[1])
    else:
        _, height, width, channels = arrays.train_images.shape
        shape = (channels, height, width)
    owners = 0 if arrays.owner is None else len(np.unique(arrays.owner))
    sizes = f"train={len(arrays.train_labels)} test={len(arrays.test_labels)} owners={owners}"
    return f"{digest} {kind} {'x'.join(map(str, shape))} classes={arrays.train_labels.max() + 1} {sizes}"


def read_arrays(path: Path) -> tuple[Arrays, Kind]:
    """Read and check the arrays of a file or folder; UserError with one line for anything that is wrong."""
    try:
        parts = _parts(path)
        return _checked(parts)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error, MemoryError) as error:
        if "allow_pickle" in str(error) or "pickled" in str(error):
            reason = "holds pickled Python objects or is no file of arrays; save numbers, such as x.astype('float32')"
        else:
            reason = f"cannot be read ({' '.join(str(error).split())[:200]})"
        raise UserError(f"{path}: {reason}") from error


def _parts(path: Path) -> dict[str, Array]:
    """Return the arrays in a file or folder by their names."""
    if path.is_dir():
        files = {file.stem: file for file in sorted(path.glob("*.npy")) if file.is_file()}
        if not files:
            raise UserError("a folder without .npy files; put x.npy and y.npy there")
        _check_names(files)
        return {name: np.load(file, allow_pickle=False) for name, file in files.items()}
    if not stat.S_ISREG(path.stat().st_mode):
        raise UserError("is neither a file nor a folder")
    if path.suffix == ".parquet":
        return _parquet(path)
    if path.suffix != ".npz":
        raise UserError("must be an .npz or .parquet file, or a folder of .npy files")
    with np.load(path, allow_pickle=False) as archive:
        _check_names(archive.files)
        return {name: archive[name] for name in archive.files}


def _check_names(names: Any) -> None:
    if wrong := [name for name in names if name not in NAMES]:
        raise UserError(unknown("array", wrong[0], NAMES))
    if missing := [name for name in ("x", "y") if name not in names]:
        raise UserError(f"has no array {missing[0]}; must have x and y, and may have {', '.join(NAMES[2:])}")


def _parquet(path: Path) -> dict[str, Array]:
    """Columns `y`, optionally `owner` and `test` (true or false), and `x` of lists or else one column a feature."""
    from pyarrow import ArrowException, parquet

    try:
        table = parquet.read_table(path)
    except ArrowException as error:
        raise UserError(f"cannot be read ({' '.join(str(error).split())[:200]})") from error
    named = {"x", "y", "owner", "test"}
    features = [name for name in table.column_names if name not in named]
    if "y" not in table.column_names or not (features or "x" in table.column_names):
        raise UserError("must have a column y, and x or a column for each feature")
    if holes := [name for name in table.column_names if table[name].null_count]:
        raise UserError(f"column {holes[0]} has missing values")
    if "x" in table.column_names:
        if features:
            raise UserError(f"has a column x and others ({features[0]}); must have either")
        lists = table["x"].to_pylist()
        if not all(isinstance(each, list) and len(each) == len(lists[0]) for each in lists):
            raise UserError("column x must have lists of one length")
        x = np.array(lists)
    else:
        x = np.stack([table[name].to_numpy() for name in features], 1)
    if x.dtype == np.float64:  # what tables of numbers usually have
        x = x.astype(np.float32)
    parts = {
        "x": x,
        **{name: np.array(table[name].to_pylist()) for name in ("y", "owner") if name in table.schema.names},
    }
    if "test" not in table.column_names:
        return parts
    test = np.array(table["test"].to_pylist())
    if test.dtype != bool:
        raise UserError("column test must be true or false")
    return {name: part[~test] for name, part in parts.items()} | {
        f"{name}_test": part[test] for name, part in parts.items()
    }


def _checked(parts: Mapping[str, Array]) -> tuple[Arrays, Kind]:
    """Return arrays in the layout of all data sets, held to what a data set must be."""
    if ("x_test" in parts) != ("y_test" in parts):
        raise UserError("has one of x_test and y_test; must have both or neither")
    if "owner_test" in parts and not {"owner", "x_test"} <= set(parts):
        raise UserError("has owner_test; must then have owner and x_test, too")
    kind, x = _inputs(parts["x"], "x")
    y = _labels(parts["y"], "y", len(x))
    classes = int(y.max()) + 1
    if classes > len(y) or len(np.unique(y)) < classes:
        missing = next(label for label in range(classes) if label not in y)
        raise UserError(f"y: no sample has label {missing}; labels must be 0 ... C - 1 for C classes")
    if classes < 2:
        raise UserError("y: all samples have label 0; must have at least two classes")
    owner, owner_test = _owners(parts, len(x))
    if "x_test" not in parts:
        return _with_test(x, y, owner), kind
    kind_test, x_test = _inputs(parts["x_test"], "x_test")
    if kind_test != kind or x_test.shape[1:] != x.shape[1:]:
        raise UserError(
            f"x_test is {parts['x_test'].dtype} {parts['x_test'].shape}; must be like x, "
            f"{parts['x'].dtype} {parts['x'].shape}"
        )
    y_test = _labels(parts["y_test"], "y_test", len(x_test))
    if y_test.max() >= classes:
        raise UserError(f"y_test: label {y_test.max()} is out of range; y has labels 0 ... {classes - 1}")
    return Arrays(x, y, x_test, y_test, owner, owner_test), kind


def _inputs(x: Array, name: str) -> tuple[Kind, Array]:
    """Return the kind of some inputs, and the inputs as [N, H, W, C], or as int32 [N, L] where they are tokens."""
    if x.ndim not in (2, 3, 4) or not x.size:
        raise UserError(f"{name} has shape {x.shape}; must be [N, D], [N, H, W] or [N, H, W, C]")
    if np.issubdtype(x.dtype, np.integer) and x.dtype != np.uint8:
        if x.ndim != 2:
            raise UserError(f"{name} is {x.dtype} {x.shape}; must be uint8 or float32 (integers [N, L] are tokens)")
        if x.min() < 0 or x.max() >= LARGEST_VOCABULARY:
            raise UserError(
                f"{name}: tokens are {x.min()} ... {x.max()}; must be 0 ... {LARGEST_VOCABULARY - 1} at most"
            )
        return "tokens", x.astype(np.int32)
    if x.dtype not in (np.uint8, np.float32):
        raise UserError(f"{name} is {x.dtype}; must be uint8, float32 or, for tokens, whole numbers")
    if x.dtype == np.float32 and not np.isfinite(x).all():
        bad = int((~np.isfinite(x)).reshape(len(x), -1).any(1).sum())
        raise UserError(f"{name}: {bad} samples have NaN or infinite values; must be finite")
    if x.ndim == 4 and x.shape[1] in (1, 3) and x.shape[3] > 4:
        raise UserError(f"{name} has shape {x.shape}, channels first; must be [N, H, W, C]: x.transpose(0, 2, 3, 1)")
    shape = {2: (len(x), 1, x.shape[-1], 1), 3: (*x.shape, 1), 4: x.shape}[x.ndim]
    return ("uint8" if x.dtype == np.uint8 else "float32"), np.ascontiguousarray(x.reshape(shape))


def _labels(y: Array, name: str, size: int) -> NDArray[np.int64]:
    if y.shape != (size,):
        raise UserError(f"{name} has shape {y.shape}; must be ({size},), one label for each sample")
    if not np.issubdtype(y.dtype, np.integer):
        raise UserError(f"{name} is {y.dtype}; labels must be whole numbers 0 ... C - 1")
    if y.min() < 0 or y.max() >= 10**6:
        raise UserError(f"{name}: label {y.min() if y.min() < 0 else y.max()} is out of range; must be 0 ... C - 1")
    return y.astype(np.int64)


def _owners(parts: Mapping[str, Array], size: int) -> tuple[NDArray[np.int64] | None, NDArray[np.int64] | None]:
    """Return the owners as numbers 0, 1, ...: those of training samples first, in the order of their names."""
    if "owner" not in parts:
        return None, None
    given = [("owner", size)] + ([("owner_test", len(parts["x_test"]))] if "owner_test" in parts else [])
    for name, samples in given:
        owner = parts[name]
        if owner.shape != (samples,):
            raise UserError(f"{name} has shape {owner.shape}; must be ({samples},), one owner for each sample")
        if not np.issubdtype(owner.dtype, np.integer) and owner.dtype.kind != "U":
            raise UserError(f"{name} is {owner.dtype}; owners must be whole numbers or names")
        if nobody := int(((owner == "") if owner.dtype.kind == "U" else (owner < 0)).sum()):
            raise UserError(f"{name}: {nobody} samples have no owner (a negative number or an empty name)")
    if len({parts[name].dtype.kind == "U" for name, _ in given}) > 1:
        raise UserError("owner and owner_test must both be numbers or both be names")
    names, numbers = np.unique(parts["owner"], return_inverse=True)
    if len(given) == 1:
        return numbers.astype(np.int64), None
    order = {name: number for number, name in enumerate(names.tolist())}
    for name in np.unique(parts["owner_test"]).tolist():
        order.setdefault(name, len(order))
    return numbers.astype(np.int64), np.array([order[name] for name in parts["owner_test"].tolist()], np.int64)


def _with_test(x: Array, y: NDArray[np.int64], owner: NDArray[np.int64] | None) -> Arrays:
    """Set a fifth of the samples aside as the test set, in proportion to the owners or else to the classes."""
    if len(y) < TEST_SHARE:
        raise UserError(f"has {len(y)} samples and no x_test; must have {TEST_SHARE} to set a test set aside")
    order = class_order(y if owner is None else owner, generator(0, "file/test"), balanced=False)
    test, train = (np.sort(part) for part in np.split(order, [len(y) // TEST_SHARE]))
    if len(np.unique(y[train])) <= y.max():
        raise UserError("y: a class has too few samples to set a test set aside; give x_test and y_test")
    owned = (None, None) if owner is None else (owner[train], owner[test])
    if owner is not None and len(np.unique(owner[train])) <= owner.max():
        raise UserError("owner: an owner has too few samples to set a test set aside; give x_test and y_test")
    return Arrays(x[train], y[train], x[test], y[test], *owned)
