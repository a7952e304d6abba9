"""DenseNet-121 for small images, with a 3x3 stem and without stem pooling."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedbench.models.base import Shape, register_model

GROWTH = 32
BLOCKS = (6, 12, 24, 16)


class DenseLayer(nn.Module):
    """BN - ReLU - 1x1 conv to 4 * growth - BN - ReLU - 3x3 conv to growth, concatenated with its input."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(inputs)
        self.conv1 = nn.Conv2d(inputs, 4 * GROWTH, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(4 * GROWTH)
        self.conv2 = nn.Conv2d(4 * GROWTH, GROWTH, 3, padding=1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """[B, inputs, H, W] -> [B, inputs + growth, H, W]."""
        out = self.conv2(F.relu(self.bn2(self.conv1(F.relu(self.bn1(x))))))
        return torch.cat([out, x], 1)


def _transition(inputs: int) -> nn.Module:
    """A transition layer, which halves the number of channels and the size of the image."""
    return nn.Sequential(
        nn.BatchNorm2d(inputs), nn.ReLU(), nn.Conv2d(inputs, inputs // 2, 1, bias=False), nn.AvgPool2d(2)
    )


class GlobalMean(nn.Module):
    """Global average pooling. Its CUDA gradient is deterministic, unlike that of adaptive pooling."""

    def forward(self, x: Tensor) -> Tensor:
        """[B, C, H, W] -> [B, C]."""
        return x.mean((2, 3))


@register_model("densenet121")
def densenet121(shape: Shape, num_classes: int) -> nn.Module:
    """Growth 32, blocks of 6, 12, 24 and 16 layers, reduction 0.5."""
    channels = 2 * GROWTH
    layers: list[nn.Module] = [nn.Conv2d(shape[0], channels, 3, padding=1, bias=False)]
    for block, depth in enumerate(BLOCKS):
        if block:
            layers.append(_transition(channels))
            channels //= 2
        for _ in range(depth):
            layers.append(DenseLayer(channels))
            channels += GROWTH
    return nn.Sequential(*layers, nn.BatchNorm2d(channels), nn.ReLU(), GlobalMean(), nn.Linear(channels, num_classes))
