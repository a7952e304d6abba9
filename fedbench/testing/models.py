"""What a model promises."""

import torch
import torch.nn.functional as F
from torch import Tensor

from fedbench.config import RunConfig
from fedbench.models import FlatModel, initial
from fedbench.models.base import wrong_output
from fedbench.simulation.compute import exact, seeded
from fedbench.testing.runs import promise, said_as_broken_promise

CPU = torch.device("cpu")
IMAGES = 6
ROUNDING = 1e-4  # between one batch and another in float32


def check_model(name: str, shape: tuple[int, int, int] = (1, 28, 28), num_classes: int = 10) -> None:
    """Hold a registered model to what every model promises, for images of a shape (C, H, W) and so many classes.

    It gives a row of logits an image, in float32 and float64; starts from the weights that the seed fixes; trains; and
    is a function of its parameters, its running statistics and torch's generator alone. In eval mode an image's logits
    depend neither on chance nor on the other images of its batch.
    """
    with said_as_broken_promise(), exact(RunConfig(), CPU):
        complaint = wrong_output(name, shape, num_classes)
        promise(complaint is None, f"model '{name}': {complaint}")
        for dtype in (torch.float32, torch.float64):
            model, again = (initial(name, shape, num_classes, 8, CPU, dtype) for _ in range(2))
            promise(
                torch.equal(model.w, again.w),
                f"model '{name}': two of the same seed start from different weights; draw them with torch alone",
            )
            check_training(name, model, shape, num_classes)
            check_scoring(name, model, shape)


def check_training(name: str, model: FlatModel, shape: tuple[int, int, int], num_classes: int) -> None:
    """Check that two steps of SGD change the weights, and repeat exactly from the same start."""
    frozen = [key for key, parameter in model.module.named_parameters() if not parameter.requires_grad]
    promise(
        not frozen,
        f"model '{name}': {', '.join(frozen)} is frozen, and weight decay would still change it; make it a buffer",
    )
    w, buffers = model.w.clone(), model.buffers.clone()
    first = _trained(model, w, buffers, shape, num_classes)
    promise(bool(torch.isfinite(first).all()), f"model '{name}': its weights do not stay finite when it is trained")
    promise(not torch.equal(first[: len(w)], w), f"model '{name}': training does not change its weights")
    promise(
        torch.equal(first, _trained(model, w, buffers, shape, num_classes)),
        f"model '{name}': trained again from the same start it came out different; it keeps something that is neither "
        "a parameter nor a running statistic, or draws from another generator than torch's",
    )


def check_scoring(name: str, model: FlatModel, shape: tuple[int, int, int]) -> None:
    """Check that in eval mode logits are finite, repeat exactly, and depend on no other image."""
    x = _images(shape, model.w.dtype, 1)
    model.train(False)
    with torch.no_grad():
        logits, again, alone = model(x), model(x), model(x[:1])
    promise(bool(torch.isfinite(logits).all()), f"model '{name}': its logits are not finite")
    promise(torch.equal(logits, again), f"model '{name}': in eval mode the same images get different logits")
    promise(
        torch.allclose(logits[:1], alone, rtol=ROUNDING, atol=ROUNDING),
        f"model '{name}': in eval mode an image's logits depend on the other images of its batch",
    )


def _trained(model: FlatModel, w: Tensor, buffers: Tensor, shape: tuple[int, int, int], num_classes: int) -> Tensor:
    """Parameters and running statistics [P + Q] after two steps from w [P] and buffers [Q]."""
    model.load(w, buffers)
    model.train()
    labels = torch.arange(IMAGES) % num_classes
    with seeded(0, CPU):
        for step in range(2):
            model.grad.zero_()
            F.cross_entropy(model(_images(shape, w.dtype, step)), labels).backward()
            with torch.no_grad():
                model.w.sub_(model.grad, alpha=1e-3)
    return torch.cat([model.w, model.buffers])


def _images(shape: tuple[int, int, int], dtype: torch.dtype, seed: int) -> Tensor:
    """Noise [B, C, H, W], channels-last, as a run feeds it."""
    noise = torch.rand((IMAGES, *shape), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return noise.to(dtype).contiguous(memory_format=torch.channels_last)
