"""Digits by synthetic writers: a data set with owners."""

from pathlib import Path

import numpy as np
import pytest

from fedbench import TrialConfig
from fedbench.base.errors import UserError
from fedbench.data.base import DATASETS
from fedbench.data.sets import mnist5k, writers
from fedbench.data.sets.writers import WRITERS, write
from fedbench.metrics.clients import client_accuracies
from fedbench.simulation.federation import load_arrays
from fedbench.store.execute import execute
from fedbench.store.store import Store
from fedbench.testing import check_dataset

ARRAYS = load_arrays(DATASETS.get("writers"), None)


def test_every_digit_of_the_embedded_set_is_written_once_and_stays_in_its_part() -> None:
    plain = mnist5k.Embedded()(None)
    assert np.array_equal(ARRAYS.train_labels, plain.train_labels)
    assert np.array_equal(ARRAYS.test_labels, plain.test_labels)
    assert ARRAYS.owner is not None and ARRAYS.owner_test is not None
    assert sorted(set(ARRAYS.owner)) == list(range(WRITERS)) and set(ARRAYS.owner_test) <= set(range(WRITERS))
    correlations = [
        np.corrcoef(a.reshape(-1), b.reshape(-1))[0, 1]
        for a, b in zip(ARRAYS.train_images[::40], plain.train_images[::40], strict=True)
    ]
    assert min(correlations) > 0.1 and np.mean(correlations) > 0.6


def test_writers_differ_in_slant_thickness_and_in_what_they_write() -> None:
    assert ARRAYS.owner is not None
    ink = [ARRAYS.train_images[ARRAYS.owner == writer].mean() for writer in range(WRITERS)]
    assert np.std(ink) > 5
    counts = np.array([np.bincount(ARRAYS.train_labels[ARRAYS.owner == w], minlength=10) for w in range(WRITERS)])
    shares = counts / counts.sum(1, keepdims=True)
    assert 0.3 < np.abs(shares - 0.1).sum(1).mean() / 2 < 0.7
    rows, columns = np.mgrid[:28, :28] - 13.5
    slants = [
        float((x * rows * columns).sum() / (x * rows**2).sum())
        for w in range(WRITERS)
        for x in [ARRAYS.train_images[ARRAYS.owner == w][..., 0].astype(float).sum(0)]
    ]
    assert max(slants) - min(slants) > 0.6


def test_writing_without_a_manner_changes_nothing_and_manners_do_what_they_say() -> None:
    digits = mnist5k.Embedded()(None).train_images[:200:20]
    assert np.array_equal(write(digits, 0.0, 0.0), digits)
    assert (write(digits, 0.0, 0.5) >= digits).all() and (write(digits, 0.0, -0.5) <= digits).all()
    point = np.zeros((1, 5, 5, 1), np.uint8)
    point[0, 0, 2] = 200
    assert write(point, 0.5, 0.0)[0, 0, :, 0].tolist() == [0, 0, 0, 200, 0], "two rows above the middle: one column"


def test_writers_whose_digits_came_out_differently_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writers, "SHA256", "0" * 64)
    with pytest.raises(UserError, match="expected 000000000000"):
        writers.Written().verify(None, download=False)


def test_it_keeps_what_every_data_set_promises() -> None:
    check_dataset("writers")


def test_natural_clients_are_scored_on_digits_of_their_own_writers(tmp_path: Path) -> None:
    settings = {"data.name": "writers", "data.partition": "natural", "clients.epochs": 1, "rounds": 2}
    config = TrialConfig(**settings)
    found = client_accuracies(execute(config, Store(tmp_path), None))
    assert found and found.measured and len(found.clients) == config.clients.count == 20
    assert found.samples.sum() == 1000 - config.proxy_pool and 0 < found.accuracy.min() < found.accuracy.max()
