"""How values get from the host to a device: without waiting for what the device has still to do."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

MOST_PINNED = 64 * 2**20  # bytes: torch keeps pinned memory for later copies


def on_device(values: NDArray[Any] | Sequence[Any], device: torch.device, dtype: torch.dtype | None = None) -> Tensor:
    """Values as a tensor on a device, in their own type or in `dtype`.

    To a GPU they go through pinned memory: a copy from anywhere else would wait until all steps before it are done.
    Whole data sets do not, which are moved before there are any steps.
    """
    tensor = torch.from_numpy(values if isinstance(values, np.ndarray) else np.array(values))
    if device.type != "cuda" or tensor.nbytes > MOST_PINNED:
        return tensor.to(device, dtype)
    return tensor.to(dtype or tensor.dtype).pin_memory().to(device, non_blocking=True)
