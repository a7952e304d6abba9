"""Scoring the global model."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from fedbench.data.federation import Samples
from fedbench.models import FlatModel

BATCH = 500  # large enough to be fast, small enough to stay in cache


class Score(NamedTuple):
    """Accuracy as a fraction, mean cross-entropy."""

    accuracy: float
    loss: float


def evaluate(model: FlatModel, w: Tensor, buffers: Tensor, samples: Samples) -> Score:
    """Score parameters w [P] with running statistics [Q]; sums stay on the device, one sync at the end."""
    model.load(w, buffers)
    model.train(False)
    correct = torch.zeros((), device=w.device, dtype=torch.int64)
    total = torch.zeros((), device=w.device, dtype=torch.float64)
    with torch.inference_mode():
        for start in range(0, len(samples), BATCH):
            span = slice(start, start + BATCH)
            logits, y = model(samples.inputs(span)), samples.labels[span]
            correct += (logits.argmax(1) == y).sum()
            total += F.cross_entropy(logits, y, reduction="sum")
    return Score(int(correct) / len(samples), float(total) / len(samples))
