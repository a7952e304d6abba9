"""Accuracy and loss from predictions."""

from collections.abc import Iterable
from functools import reduce
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
    sums, count = [], 0
    for logits, y in predictions:
        right, loss = (logits.argmax(1) == y).sum(), F.cross_entropy(logits, y, reduction="sum")
        sums.append(torch.stack([right.double(), loss.double()]))
        count += len(y)
    correct, total = reduce(torch.add, sums).tolist()
    return Score(correct / count, total / count)


def class_scores(predictions: Predictions, num_classes: int) -> list[tuple[int, float | None]]:
    """(samples, accuracy) of every class; None for a class that does not occur."""
    seen = []
    for logits, y in predictions:
        is_of = y[:, None] == torch.arange(num_classes, device=y.device)
        seen.append(torch.stack([is_of.sum(0), (is_of & (logits.argmax(1) == y)[:, None]).sum(0)]))
    counts, right = reduce(torch.add, seen).tolist()
    return [(n, k / n if n else None) for k, n in zip(right, counts, strict=True)]
