"""A small network of convolutions."""

from torch import Tensor, nn

from fedbench.models import register_model


class MyNet(nn.Module):
    """Two convolutions, each with batch norm; their mean over the image goes into a linear layer."""

    def __init__(self, channels: int, num_classes: int, width: int = 16) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(channels, width, 3, stride=2, padding=1),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, stride=2, padding=1),
            nn.BatchNorm2d(2 * width),
            nn.ReLU(),
        )
        self.head = nn.Linear(2 * width, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits [B, classes] of images [B, C, H, W]."""
        logits: Tensor = self.head(self.features(x).mean((2, 3)))
        return logits


@register_model("my_net")
def my_net(shape: tuple[int, int, int], num_classes: int) -> nn.Module:
    """The network for images of shape (C, H, W)."""
    channels, _, _ = shape
    return MyNet(channels, num_classes)
