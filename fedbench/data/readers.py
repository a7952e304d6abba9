"""Parsers of the official file formats: they turn bytes into uint8 images [N, H, W, C] and labels [N]."""

import io
import math
import pickle

import numpy as np
from numpy.typing import NDArray

from fedbench.base.errors import UserError

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


def planes_to_pixels(rows: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Convert rows of three 32 x 32 colour planes [N, 3072] to pixels [N, 32, 32, 3]."""
    return np.ascontiguousarray(rows.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
