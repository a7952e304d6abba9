"""The registry of models, and functions that build and initialise them."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache

import torch
from torch import nn
from torch.nn.parameter import UninitializedParameter

from fedbench.base.errors import ConfigError
from fedbench.base.registry import Registry, with_brackets
from fedbench.base.rng import numbered, torch_seed
from fedbench.models.flat import FlatModel
from fedbench.models.norm import BATCH, model_and_norm, replace_batch_norm
from fedbench.models.precision import Precision

Shape = tuple[int, int, int]
Network = tuple[str, Shape, int]  # name, with its normalization (see `norm`), shape of the images, number of classes
Builder = Callable[[Shape, int], nn.Module]

MODELS: Registry[Builder] = Registry("model", home="fedbench.models")


def register_model(name: str, version: str | None = None) -> Callable[[Builder], Builder]:
    """Register the decorated function `build(shape, num_classes) -> nn.Module` under a name.

    shape is (C, H, W), and the module maps images [B, C, H, W] to logits [B, classes]. `version` is for plugins: it
    replaces the fingerprint of their source in the hash.
    """
    with_brackets("register_model('name')", name)

    def register(builder: Builder) -> Builder:
        MODELS.add(name, builder, version)
        return builder

    return register


def build(name: str, shape: Shape, num_classes: int) -> nn.Module:
    """Build a module with weights from torch's global generator. Runs use `built` or `initial` instead.

    `name` is that of a network: a model's, or a model's with its normalization (`resnet20/group`).
    """
    name, norm = model_and_norm(name)
    builder = MODELS.get(name)
    try:
        module = builder(shape, num_classes)
    except Exception as error:  # a plugin's model may raise anything
        size = "x".join(map(str, shape))
        reason = f"{type(error).__name__}: {_first_line(error)}"
        raise ConfigError(f"model '{name}' cannot be built for {size} images ({reason})") from error
    if not isinstance(module, nn.Module):
        raise ConfigError(f"model '{name}': its function gave {type(module).__name__}; expected a torch module")
    if norm != BATCH:
        replace_batch_norm(module, name, norm)
    return module


@contextmanager
def without_memory() -> Iterator[None]:
    """A context in which modules are built with shapes but without weights; weights from files are ignored."""
    with torch.device("meta"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "for .*: copying from a non-meta parameter")
        yield


@lru_cache
def has_batch_norm(name: str, shape: Shape, num_classes: int) -> bool:
    """Whether the model has running statistics. It is built without memory to find out."""
    with without_memory():
        return any(buffer.is_floating_point() for buffer in build(name, shape, num_classes).buffers())


@lru_cache
def wrong_output(name: str, shape: Shape, num_classes: int) -> str | None:
    """A message if a model cannot be trained or its output for two images has a wrong shape, else None.

    The model is built without memory.
    """
    try:
        with without_memory():
            module = build(name, shape, num_classes)
            if any(isinstance(parameter, UninitializedParameter) for parameter in module.parameters()):
                return "it has lazy layers; give them their sizes"
            if not any(parameter.requires_grad for parameter in module.parameters()):
                return "it has no parameters to train"
            if complex_ := [name for name, p in module.named_parameters() if p.is_complex()]:
                return f"its parameter {complex_[0]} is complex; must be real"
            logits = module.train()(torch.zeros(2, *shape))
    except ConfigError:
        raise
    except Exception as error:
        return f"it cannot take images of {'x'.join(map(str, shape))} ({type(error).__name__}: {_first_line(error)})"
    if not isinstance(logits, torch.Tensor) or tuple(logits.shape) != (2, num_classes):
        found = f"{list(logits.shape)}" if isinstance(logits, torch.Tensor) else type(logits).__name__
        return f"it gives {found} for 2 images of {num_classes} classes; must be [2, {num_classes}]"
    return None


@lru_cache
def needs_two(name: str, shape: Shape, num_classes: int) -> bool:
    """Whether the model cannot be trained on a batch of one image, as is the case with batch norm over vectors."""
    if not has_batch_norm(name, shape, num_classes):
        return False
    with without_memory():
        module = build(name, shape, num_classes).train()
        try:
            module(torch.zeros(1, *shape))
        except ValueError:
            return True
    return False


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [""])[0][:200]


def built(name: str, shape: Shape, num_classes: int, seed: int, draw: int = 0) -> nn.Module:
    """A module whose initial weights depend on the arguments alone.

    They are drawn in float32 on the CPU, so that they are the same for every device and precision.
    """
    before = torch.get_default_dtype()
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        model, _ = model_and_norm(name)
        torch.manual_seed(torch_seed(seed, numbered(f"init/{model}/{shape}/{num_classes}", draw)))
        torch.set_default_dtype(torch.float32)
        try:
            return build(name, shape, num_classes)
        finally:
            torch.set_default_dtype(before)


def initial(
    name: str,
    shape: Shape,
    num_classes: int,
    seed: int,
    device: torch.device,
    precision: Precision | torch.dtype,
    draw: int = 0,
) -> FlatModel:
    """The initial model of a run: the module of `built` as a function of a flat vector."""
    return FlatModel(built(name, shape, num_classes, seed, draw), device, precision)
