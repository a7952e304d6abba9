"""Networks: models with the normalization that a run asks for, batch norm, group norm or none."""

from math import gcd
from typing import Literal, get_args

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from fedbench.base.errors import ConfigError

Norm = Literal["batch", "group", "none"]
BATCH: Norm = "batch"
GROUPS = 2  # of channels, as is usual for group norm in federated learning (Reddi et al., 2021)


def network_name(model: str, norm: Norm) -> str:
    """The name of a network: that of the model, with its normalization if that is not batch norm (`resnet20/group`)."""
    return model if norm == BATCH else f"{model}/{norm}"


def model_and_norm(network: str) -> tuple[str, Norm]:
    """The model and the normalization that the name of a network gives."""
    model, _, norm = network.rpartition("/")
    known: list[Norm] = [each for each in get_args(Norm) if model and each == norm]
    return (model, known[0]) if known else (network, BATCH)


def replace_batch_norm(module: nn.Module, model: str, norm: Norm) -> None:
    """Put group norm, or nothing, in place of every batch-norm layer of a module.

    The other weights stay, so that they are the same for all norms. Raise ConfigError if there is no batch norm.
    """
    layers = [(name, layer) for name, layer in module.named_modules() if isinstance(layer, _BatchNorm)]
    if not layers:
        raise ConfigError(f"norm = {norm}: model '{model}' has no batch norm to replace; must be {BATCH}")
    for name, layer in layers:
        channels = layer.num_features
        other = nn.Identity() if norm == "none" else nn.GroupNorm(gcd(GROUPS, channels), channels, eps=layer.eps)
        parent, _, leaf = name.rpartition(".")
        setattr(module.get_submodule(parent), leaf, other)
