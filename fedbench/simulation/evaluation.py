"""Scoring the global model."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from fedbench.models import FlatModel
from fedbench.simulation.federation import Samples

BATCH = 500  # large enough to be fast, small enough to stay in cache


class Score(NamedTuple):
    """Accuracy as a fraction, mean cross-entropy."""

    accuracy: float
    loss: float


def evaluate(model: FlatModel, w: Tensor, buffers: Tensor, samples: Samples) -> Score:
    """Score parameters w [P] with running statistics [Q]; sums stay on the device, one sync at the end."""
    correct = torch.zeros((), device=w.device, dtype=torch.int64)
    total = torch.zeros((), device=w.device, dtype=torch.float64)
    for logits, y in predictions(model, w, buffers, samples):
        correct += (logits.argmax(1) == y).sum()
        total += F.cross_entropy(logits, y, reduction="sum")
    return Score(int(correct) / len(samples), float(total) / len(samples))


def class_accuracies(
    model: FlatModel, w: Tensor, buffers: Tensor, samples: Samples, num_classes: int
) -> list[tuple[int, float | None]]:
    """(samples, accuracy) of every class; None for a class that does not occur."""
    right = torch.zeros(num_classes, device=w.device, dtype=torch.int64)
    for logits, y in predictions(model, w, buffers, samples):
        right += torch.bincount(y[logits.argmax(1) == y], minlength=num_classes)
    counts = torch.bincount(samples.labels, minlength=num_classes)
    return [(n, k / n if n else None) for k, n in zip(right.tolist(), counts.tolist(), strict=True)]


def predictions(model: FlatModel, w: Tensor, buffers: Tensor, samples: Samples) -> Iterator[tuple[Tensor, Tensor]]:
    """Logits [B, classes] and labels [B] of all samples, in eval mode, batch by batch."""
    model.load(w, buffers)
    model.train(False)
    for start in range(0, len(samples), BATCH):
        span = slice(start, start + BATCH)
        with torch.inference_mode():
            logits = model(samples.inputs(span))
        yield logits, samples.labels[span]
