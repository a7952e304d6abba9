"""In which numbers a model computes.

What is kept is float32 or float64: parameters, gradients, running statistics, momentum, aggregates.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NamedTuple

import torch


class Precision(NamedTuple):
    """dtype: of all that is kept; tf32, autocast: what the passes through a model do with float32 in between.

    tf32: CUDA rounds the factors of matrix products and convolutions to 10 bits of mantissa; autocast: such products
    take and give this type. Both hold for forward and backward passes, and for nothing else.
    """

    dtype: torch.dtype
    tf32: bool = False
    autocast: torch.dtype | None = None

    def forward(self, device: torch.device) -> AbstractContextManager[None]:
        """Around a forward pass."""
        if self.autocast is None:
            return self.backward()
        # Without a cache: every weight is cast once a pass anyway, and a captured step must not meet an older cast.
        return torch.autocast(device.type, self.autocast, cache_enabled=False)

    def backward(self) -> AbstractContextManager[None]:
        """Around a backward pass; its operations take the types that they had in the forward pass."""
        return tensor_float() if self.tf32 else nullcontext()

    def refuses(self, device: torch.device) -> str | None:
        """Why it cannot be used on a device, None if it can."""
        if device.type != "cuda":
            return f"needs a GPU, the device is {device}" if self.tf32 else None
        if self.tf32 and torch.version.hip:
            return "AMD's GPUs have no TF32"
        major, minor = torch.cuda.get_device_capability(device)
        if (self.tf32 or self.autocast) and major < 8:
            return f"needs a GPU of compute capability 8.0, that of {device} is {major}.{minor}"
        return None


@contextmanager
def tensor_float() -> Iterator[None]:
    """TF32 for CUDA's matrix products and convolutions, then as before."""
    backends: Any = torch.backends
    kernels = (backends.cuda.matmul, backends.cudnn.conv)
    before = [kernel.fp32_precision for kernel in kernels]
    try:
        for kernel in kernels:
            kernel.fp32_precision = "tf32"
        yield
    finally:
        for kernel, precision in zip(kernels, before, strict=True):
            kernel.fp32_precision = precision


PRECISIONS = {
    "float32": Precision(torch.float32),
    "tf32": Precision(torch.float32, tf32=True),
    "bfloat16": Precision(torch.float32, autocast=torch.bfloat16),
    "float64": Precision(torch.float64),
}
