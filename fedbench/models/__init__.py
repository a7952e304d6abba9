"""The models, one module per family. Each module registers its models when it is imported."""

from fedbench.models.base import MODELS, build, built, has_batch_norm, initial, register_model
from fedbench.models.flat import FlatModel, LayerGroups, Layers, Span, TensorSpan

__all__ = [
    "MODELS",
    "FlatModel",
    "LayerGroups",
    "Layers",
    "Span",
    "TensorSpan",
    "build",
    "built",
    "has_batch_norm",
    "initial",
    "register_model",
]
