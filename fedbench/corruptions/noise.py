"""Updates that drown in noise."""

import math

import torch
from torch import Tensor

from fedbench.base.tensors import on_device
from fedbench.corruptions.base import CorruptedCohort, Corruption, register_corruption


@register_corruption()
class Noise(Corruption):
    """Sends w_i + s |w_i - w| / sqrt(P) N(0, I): noise about s times as long as the client's update; s = 30."""

    name = "noise"

    def default_scale(self, m: int, k: int) -> float:
        """What a mean over twenty clients notices and survives: 10 leaves no trace in it, 100 makes it diverge."""
        return 30.0

    def updates(self, cohort: CorruptedCohort) -> Tensor:
        """Noise of its own for each client and round [k, P]."""
        sent = cohort.own.clone()
        for row, client in zip(sent, cohort.clients, strict=True):
            length = float(torch.linalg.vector_norm(row - cohort.w, dtype=torch.float64))
            draw = on_device(cohort.rng(client).standard_normal(len(row)), row.device, row.dtype)
            row.add_(draw, alpha=cohort.scale * length / math.sqrt(len(row)))
        return sent
