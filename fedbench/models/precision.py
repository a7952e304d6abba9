"""Number formats of forward and backward passes.

Everything that is stored is float32 or float64: parameters, gradients, running statistics, momentum and aggregates.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NamedTuple

import torch


class Precision(NamedTuple):
    """The dtype of stored vectors, and a lower precision for forward and backward passes.

    tf32: CUDA rounds the factors of matrix products and convolutions to 10 bits of mantissa.
    autocast: matrix products and convolutions take and return this dtype.
    """

    dtype: torch.dtype
    tf32: bool = False
    autocast: torch.dtype | None = None

    def forward(self, device: torch.device) -> AbstractContextManager[None]:
        """The context for a forward pass."""
        if self.autocast is None:
            return self.backward()
        # No cache: every weight is cast only once in a pass, and a captured step must not use a cached older weight.
        return torch.autocast(device.type, self.autocast, cache_enabled=False)

    def backward(self) -> AbstractContextManager[None]:
        """The context for a backward pass, whose operations have the same types as in the forward pass."""
        return tensor_float() if self.tf32 else nullcontext()

    def refuses(self, device: torch.device) -> str | None:
        """The reason why this precision cannot be used on a device, None if it can."""
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
    """A context in which CUDA uses TF32 for matrix products and convolutions."""
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
