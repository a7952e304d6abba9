"""A small model for texts: the mean of the tokens' embeddings."""

from torch import Tensor, nn

from fedbench.models.base import Shape, register_model


class TokenMean(nn.Module):
    """Embedding, mean over positions, a hidden layer; the embedding is a convolution over one-hot tokens."""

    def __init__(self, vocabulary: int, num_classes: int) -> None:
        super().__init__()
        self.embedding = nn.Conv2d(vocabulary, 64, 1, bias=False)
        self.head = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, num_classes))

    def forward(self, x: Tensor) -> Tensor:
        """Map one-hot tokens [B, V, 1, L] to logits."""
        logits: Tensor = self.head(self.embedding(x).mean((2, 3)))
        return logits


@register_model("token_mean")
def token_mean(shape: Shape, num_classes: int) -> nn.Module:
    """V - 64 (mean over the tokens) - 64 - classes with ReLU, for tokens of a vocabulary of V."""
    return TokenMean(shape[0], num_classes)
