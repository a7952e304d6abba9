"""The paper's multilayer perceptron, which has two hidden layers with 200 units."""

import math

from torch import nn

from fedbench.models.base import Shape, register_model


@register_model("mlp")
def mlp(shape: Shape, num_classes: int) -> nn.Module:
    """D - 200 - 200 - classes with ReLU."""
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(math.prod(shape), 200),
        nn.ReLU(),
        nn.Linear(200, 200),
        nn.ReLU(),
        nn.Linear(200, num_classes),
    )
