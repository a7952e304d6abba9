import pickle

import numpy as np
import pytest

from fedbench.base.errors import UserError
from fedbench.data.readers import read_cifar_binary, read_cifar_python, read_idx

RNG = np.random.default_rng(0)


def idx_bytes(array: np.ndarray) -> bytes:
    header = b"\0\0\x08" + bytes([array.ndim]) + b"".join(int(n).to_bytes(4, "big") for n in array.shape)
    return header + array.tobytes()


@pytest.mark.parametrize("shape", [(7,), (5, 4, 3)])
def test_idx_files_are_read_as_written(shape: tuple[int, ...]) -> None:
    array = RNG.integers(0, 256, shape, dtype=np.uint8)
    assert (read_idx(idx_bytes(array), "x") == array).all()


@pytest.mark.parametrize("blob", [b"", b"\0\0\x09\x01", idx_bytes(np.zeros(9, np.uint8))[:-1], b"\0\0\x08\x03\0"])
def test_a_broken_idx_file_is_named(blob: bytes) -> None:
    with pytest.raises(UserError, match="some-file"):
        read_idx(blob, "some-file")


@pytest.mark.parametrize("label_bytes", [1, 2])
def test_cifar_binary_rows_become_pixels_and_the_last_label(label_bytes: int) -> None:
    labels = RNG.integers(0, 10, (4, label_bytes), dtype=np.uint8)
    planes = RNG.integers(0, 256, (4, 3, 32, 32), dtype=np.uint8)
    blob = np.hstack([labels, planes.reshape(4, -1)]).tobytes()
    images, found = read_cifar_binary(blob, "x", label_bytes)
    assert (images == planes.transpose(0, 2, 3, 1)).all()
    assert (found == labels[:, -1]).all()


def test_a_truncated_cifar_file_is_named() -> None:
    with pytest.raises(UserError, match="some-file"):
        read_cifar_binary(bytes(3072), "some-file", 1)


@pytest.mark.parametrize("key", ["labels", "fine_labels"])
def test_cifar_python_batches_agree_with_binary_ones(key: str) -> None:
    planes = RNG.integers(0, 256, (4, 3072), dtype=np.uint8)
    blob = pickle.dumps({"data": planes, key: [3, 1, 2, 0]})
    images, labels = read_cifar_python(blob, "x", key)
    binary, _ = read_cifar_binary(np.hstack([np.zeros((4, 1), np.uint8), planes]).tobytes(), "x", 1)
    assert (images == binary).all()
    assert labels.tolist() == [3, 1, 2, 0]


def test_a_pickle_that_is_no_batch_is_named() -> None:
    with pytest.raises(UserError, match="some-file"):
        read_cifar_python(pickle.dumps({"x": 1}), "some-file", "labels")
