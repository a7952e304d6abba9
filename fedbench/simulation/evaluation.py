"""Evaluation of models."""

from collections.abc import Iterator, Sequence
from statistics import fmean

import torch
from torch import Tensor

from fedbench.data.samples import Samples
from fedbench.indicators.scoring import Score, score
from fedbench.models import FlatModel

BATCH = 500  # large enough to be fast, small enough for the CPU's cache
GPU_BATCH = 2000  # larger batches are not faster, and trials share the memory of a GPU


def evaluate(model: FlatModel, w: Tensor, buffers: Tensor, samples: Samples) -> Score:
    """Evaluate parameters w [P] with running statistics [Q] on samples."""
    return score(predictions(model, w, buffers, samples))


def mean_score(scores: Sequence[Score]) -> Score:
    """The mean accuracy and the mean loss of some models; that of one model is its own."""
    return Score(fmean(score.accuracy for score in scores), fmean(score.loss for score in scores))


def predictions(model: FlatModel, w: Tensor, buffers: Tensor, samples: Samples) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield logits [B, classes] and labels [B] of all samples batch by batch, in eval mode."""
    model.load(w, buffers)
    model.train(False)
    size = BATCH if samples.labels.device.type == "cpu" else GPU_BATCH
    for start in range(0, len(samples), size):
        span = slice(start, start + size)
        with torch.inference_mode():
            logits = model(samples.inputs(span))
        yield logits, samples.labels[span]
