"""Accuracy and loss from predictions."""

from collections.abc import Iterable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

Predictions = Iterable[tuple[Tensor, Tensor]]  # logits [B, classes] and labels [B], batch by batch


class Score(NamedTuple):
    """Accuracy as a fraction, mean cross-entropy."""

    accuracy: float
    loss: float


def score(predictions: Predictions) -> Score:
    """The score over all batches; sums stay on the device, one sync at the end."""
    correct, total, count = torch.zeros((), dtype=torch.int64), torch.zeros((), dtype=torch.float64), 0
    for logits, y in predictions:
        if not count:
            correct, total = correct.to(logits.device), total.to(logits.device)
        correct += (logits.argmax(1) == y).sum()
        total += F.cross_entropy(logits, y, reduction="sum")
        count += len(y)
    return Score(int(correct) / count, float(total) / count)


def class_scores(predictions: Predictions, num_classes: int) -> list[tuple[int, float | None]]:
    """(samples, accuracy) of every class; None for a class that does not occur."""
    right, counts = torch.zeros(num_classes, dtype=torch.int64), torch.zeros(num_classes, dtype=torch.int64)
    for logits, y in predictions:
        right += torch.bincount(y[logits.argmax(1) == y], minlength=num_classes).cpu()
        counts += torch.bincount(y, minlength=num_classes).cpu()
    return [(n, k / n if n else None) for k, n in zip(right.tolist(), counts.tolist(), strict=True)]
