"""Plain convolutional networks: LeNet-5, SimpleCNN and two AlexNets for small images."""

from torch import nn

from fedbench.models.base import Shape, register_model


def _pooled(shape: Shape, *sizes: tuple[int, int]) -> int:
    """Number of positions H * W after some stages, each given by (pixels lost by the convolution, pooling divisor)."""
    height, width = shape[1:]
    for lost, divisor in sizes:
        height, width = (height - lost) // divisor, (width - lost) // divisor
    if min(height, width) < 1:
        raise ValueError("the images are too small for its pooling layers")
    return height * width


@register_model("lenet5")
def lenet5(shape: Shape, num_classes: int) -> nn.Module:
    """Conv 16@5x5, pool, conv 32@5x5, pool, linear; 'same' padding."""
    return nn.Sequential(
        nn.Conv2d(shape[0], 16, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * _pooled(shape, (0, 2), (0, 2)), num_classes),
    )


@register_model("simple_cnn")
def simple_cnn(shape: Shape, num_classes: int) -> nn.Module:
    """Conv 32, pool, conv 64, pool, conv 64 (3x3, no padding), fc 64, fc classes."""
    return nn.Sequential(
        nn.Conv2d(shape[0], 32, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(64, 64, 3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(64 * _pooled(shape, (2, 2), (2, 2), (2, 1)), 64),
        nn.ReLU(),
        nn.Linear(64, num_classes),
    )


@register_model("alexnet")
def alexnet(shape: Shape, num_classes: int) -> nn.Module:
    """3x3 convs 64 (stride 2) - 192 - 384 - 256 - 256, pools after 1, 2 and 5, fc 4096 - 4096 - classes, no dropout."""
    return nn.Sequential(
        nn.Conv2d(shape[0], 64, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(64, 192, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(192, 384, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(384, 256, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(256, 256, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(256 * _pooled(shape, (-1, 2), (0, 2), (0, 2), (0, 2)), 4096),
        nn.ReLU(),
        nn.Linear(4096, 4096),
        nn.ReLU(),
        nn.Linear(4096, num_classes),
    )


@register_model("alexnet_small")
def alexnet_small(shape: Shape, num_classes: int) -> nn.Module:
    """AlexNet cut down for CIFAR: two 5x5 convs of 64, each with a pool and a local response norm, fc 384 - 192."""
    return nn.Sequential(
        nn.Conv2d(shape[0], 64, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(3, stride=2, padding=1),
        _response_norm(),
        nn.Conv2d(64, 64, 5, padding=2),
        nn.ReLU(),
        _response_norm(),
        nn.MaxPool2d(3, stride=2, padding=1),
        nn.Flatten(),
        nn.Linear(64 * _pooled(shape, (-1, 2), (-1, 2)), 384),
        nn.ReLU(),
        nn.Linear(384, 192),
        nn.ReLU(),
        nn.Linear(192, num_classes),
    )


def _response_norm() -> nn.LocalResponseNorm:
    """Local response normalisation over four neighbouring channels, as in the first CIFAR networks."""
    return nn.LocalResponseNorm(4, alpha=0.001 / 9, beta=0.75, k=1)
