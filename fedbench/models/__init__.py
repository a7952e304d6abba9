"""The models, one file a family; every module here registers what it holds."""

from fedbench.models.base import MODELS, build, has_batch_norm, initial, register_model
from fedbench.models.flat import FlatModel, LayerGroups, Layers, Span

__all__ = [
    "MODELS",
    "FlatModel",
    "LayerGroups",
    "Layers",
    "Span",
    "build",
    "has_batch_norm",
    "initial",
    "register_model",
]
