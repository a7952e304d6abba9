"""ResNets for CIFAR: three stages of basic blocks with batch norm and 1x1-convolution shortcuts."""

from functools import partial

import torch.nn.functional as F
from torch import Tensor, nn

from fedbench.models.base import Shape, register_model


class BasicBlock(nn.Module):
    """A residual block of two 3x3 convolutions with a shortcut connection."""

    def __init__(self, inputs: int, planes: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, planes, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != planes:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, planes, 1, stride, bias=False), nn.BatchNorm2d(planes))

    def forward(self, x: Tensor) -> Tensor:
        """[B, inputs, H, W] -> [B, planes, H / stride, W / stride]."""
        out = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(out)) + self.shortcut(x))


class ResNet(nn.Module):
    """Three stages of (depth - 2) / 6 residual blocks each, with 16, 32 and 64 times `widen` planes."""

    def __init__(self, depth: int, widen: int, channels: int, num_classes: int) -> None:
        super().__init__()
        planes = [16 * widen, 32 * widen, 64 * widen]
        self.conv1 = nn.Conv2d(channels, planes[0], 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes[0])
        blocks, inputs = [], planes[0]
        for stage, width in enumerate(planes):
            for block in range((depth - 2) // 6):
                blocks.append(BasicBlock(inputs, width, stride=2 if stage and not block else 1))
                inputs = width
        self.blocks = nn.Sequential(*blocks)
        self.fc = nn.Linear(inputs, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        """[B, C, H, W] -> logits [B, classes]."""
        out = self.blocks(F.relu(self.bn1(self.conv1(x))))
        logits: Tensor = self.fc(out.mean((2, 3)))  # not adaptive_avg_pool2d: its CUDA gradient is not deterministic
        return logits


def _resnet(depth: int, widen: int, shape: Shape, num_classes: int) -> nn.Module:
    return ResNet(depth, widen, shape[0], num_classes)


for _name, _depth, _widen in (
    ("resnet8", 8, 1),
    ("resnet20", 20, 1),
    ("resnet56", 56, 1),
    ("resnet110", 110, 1),
    ("wrn56_4", 56, 4),
):
    register_model(_name)(partial(_resnet, _depth, _widen))
