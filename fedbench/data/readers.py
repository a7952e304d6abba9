"""Parsers of the official file formats: they turn bytes into uint8 images [N, H, W, C] and labels [N]."""

import io
import math
import pickle
import zipfile
import zlib
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from fedbench.base.errors import UserError
from fedbench.data.base import Arrays

Labelled = tuple[NDArray[np.uint8], NDArray[np.int64]]


def read_idx(blob: bytes, name: str) -> NDArray[np.uint8]:
    """Parse an idx file of unsigned bytes: magic (0, 0, type 8, number of dims), dims as big-endian uint32, data."""
    if len(blob) < 4 or blob[:3] != b"\0\0\x08":
        raise UserError(f"{name}: not an idx file of unsigned bytes")
    dims = blob[3]
    if len(blob) < 4 + 4 * dims:
        raise UserError(f"{name}: cut off inside its header")
    shape = tuple(int(n) for n in np.frombuffer(blob, ">u4", count=dims, offset=4))
    size, wanted = len(blob) - 4 - 4 * dims, math.prod(shape)
    if size != wanted:
        raise UserError(f"{name}: {size} bytes of data where its header promises {wanted}")
    return np.frombuffer(blob, np.uint8, offset=4 + 4 * dims).reshape(shape).copy()


def read_mnist(blobs: Mapping[str, bytes]) -> Arrays:
    """Parse the four idx files of MNIST and of the sets that have its layout."""
    part = {name: read_idx(blob, name) for name, blob in blobs.items()}
    return Arrays(
        part["train-images-idx3-ubyte"][..., None],
        part["train-labels-idx1-ubyte"].astype(np.int64),
        part["t10k-images-idx3-ubyte"][..., None],
        part["t10k-labels-idx1-ubyte"].astype(np.int64),
    )


def read_cifar_binary(blob: bytes, name: str, label_bytes: int) -> Labelled:
    """Parse rows of `label_bytes` labels, of which the last is used, and 3 x 32 x 32 pixels."""
    row = label_bytes + 3072
    if not blob or len(blob) % row:
        raise UserError(f"{name}: {len(blob)} bytes, not a whole number of {row}-byte rows")
    rows = np.frombuffer(blob, np.uint8).reshape(-1, row)
    return planes_to_pixels(rows[:, label_bytes:]), rows[:, label_bytes - 1].astype(np.int64)


def read_cifar_python(blob: bytes, name: str, label_key: str) -> Labelled:
    """Unpickle a dict with `data` [N, 3072] and a list of labels. Call it only for bytes with a known checksum."""
    try:
        content = pickle.load(io.BytesIO(blob), encoding="latin1")
        return planes_to_pixels(content["data"]), np.asarray(content[label_key], np.int64)
    except (pickle.UnpicklingError, KeyError, EOFError, TypeError) as error:
        raise UserError(f"{name}: not a CIFAR batch in the python layout ({error})") from error


def read_cropped_digits(blob: bytes, name: str) -> Labelled:
    """Parse a MATLAB file with `X` [32, 32, 3, N] and `y` [N, 1], whose labels 1 ... 10 have 10 for the digit 0."""
    from scipy.io import loadmat

    try:
        content = loadmat(io.BytesIO(blob), variable_names=("X", "y"))
        x, y = content["X"], content["y"].reshape(-1)
    except Exception as error:  # scipy raises many types
        raise UserError(f"{name}: not a MATLAB file with X and y ({type(error).__name__}: {error})") from error
    if x.dtype != np.uint8 or x.ndim != 4 or x.shape[:3] != (32, 32, 3) or len(y) != x.shape[3]:
        raise UserError(f"{name}: X is {x.dtype} {x.shape} for {len(y)} labels; expected uint8 (32, 32, 3, {len(y)})")
    if len(y) and not (y.min() >= 1 and y.max() <= 10):
        raise UserError(f"{name}: labels are {y.min()} ... {y.max()}; expected 1 ... 10")
    return np.ascontiguousarray(x.transpose(3, 0, 1, 2)), y.astype(np.int64) % 10


def open_zip(blob: bytes, name: str) -> zipfile.ZipFile:
    """Open a zip archive that is in memory."""
    try:
        return zipfile.ZipFile(io.BytesIO(blob))
    except zipfile.BadZipFile as error:
        raise UserError(f"{name}: not a zip archive ({error})") from error


def unzip(archive: zipfile.ZipFile, member: str, largest: int) -> bytes:
    """Unpack one file of an archive; UserError if it is not there, is damaged, or has more than `largest` bytes."""
    try:
        with archive.open(member) as stream:
            content = stream.read(largest + 1)
    except (KeyError, zipfile.BadZipFile, EOFError, zlib.error, OSError) as error:
        raise UserError(f"{member}: is not in the archive, or is damaged ({error})") from error
    if len(content) > largest:
        raise UserError(f"{member}: has more than {largest} bytes")
    return content


def planes_to_pixels(rows: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Convert rows of three 32 x 32 colour planes [N, 3072] to pixels [N, 32, 32, 3]."""
    return np.ascontiguousarray(rows.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
