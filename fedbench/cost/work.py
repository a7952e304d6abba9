"""What a run has to compute, whatever the machine: samples, operations, numbers that are kept."""

from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch.utils.flop_counter import FlopCounterMode

from fedbench.config import TrialConfig
from fedbench.models.base import Shape, build, without_memory

BATCH = 8  # any: operations grow with it
HOLDOUT = 0.3  # of the clients' data, in the paper's runs


def paper_config(data: str, model: str, **settings: Any) -> TrialConfig:
    """A run as the paper's are: 20 clients, of whose data some are held out."""
    return TrialConfig(**{"data.name": data, "model": model, "clients.holdout": HOLDOUT, **settings})


def round_samples(config: TrialConfig) -> float:
    """Training samples that the clients of a round see, on average."""
    clients = config.clients
    share = config.participants / clients.count * (1 - clients.holdout) * (1 - clients.dropout)
    epochs = clients.epochs - clients.straggler * (clients.epochs - clients.min_epochs) / 2
    return epochs * share * (config.train_samples - config.validation_samples)


def flops(config: TrialConfig) -> int:
    """Operations of one training sample."""
    return sample_flops(*config.network)


@lru_cache
def sample_flops(model: str, shape: Shape, num_classes: int) -> int:
    """Floating-point operations of one training sample, forward and backward; a multiply-add is two."""
    with without_memory(), FlopCounterMode(display=False) as counter:
        module = build(model, shape, num_classes).train()
        labels = torch.zeros(BATCH, dtype=torch.long)
        F.cross_entropy(module(torch.zeros(BATCH, *shape)), labels).backward()
    return max(1, int(counter.get_total_flops()) // BATCH)


@lru_cache
def kept_numbers(model: str, shape: Shape, num_classes: int) -> int:
    """How many numbers all layers give for one image: what a forward pass keeps for the backward one."""
    outputs: list[int] = []
    with without_memory():
        module = build(model, shape, num_classes).train()
        for part in module.modules():
            if not any(part.children()):
                part.register_forward_hook(lambda _, __, output: outputs.append(output.numel()))
        module(torch.zeros(BATCH, *shape))
    return sum(outputs) // BATCH


@lru_cache
def largest_layer(model: str, shape: Shape, num_classes: int) -> int:
    """Return how many numbers the largest layer takes and gives for one image: what scoring has in memory at a time."""
    sizes: list[int] = []
    with without_memory():
        module = build(model, shape, num_classes).eval()
        for part in module.modules():
            if not any(part.children()):
                part.register_forward_hook(lambda _, given, out: sizes.append(given[0].numel() + out.numel()))
        module(torch.zeros(BATCH, *shape))
    return max(sizes) // BATCH


@lru_cache
def parameter_count(model: str, shape: Shape, num_classes: int) -> int:
    """How many parameters a model has."""
    with without_memory():
        return sum(p.numel() for p in build(model, shape, num_classes).parameters())
