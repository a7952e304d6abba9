"""Move values from the host to a device without waiting for the work that is queued there."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

MOST_PINNED = 64 * 2**20  # bytes: torch keeps pinned memory for later copies


def on_device(values: NDArray[Any] | Sequence[Any], device: torch.device, dtype: torch.dtype | None = None) -> Tensor:
    """Return values as a tensor on a device, in their own type or in `dtype`.

    To a GPU they are copied through pinned memory: a copy from other memory would wait until all queued steps are done.
    Whole data sets are not pinned; they are moved before there are any steps.
    """
    tensor = torch.from_numpy(values if isinstance(values, np.ndarray) else np.array(values))
    if device.type != "cuda" or tensor.nbytes > MOST_PINNED:
        return tensor.to(device, dtype)
    return tensor.to(dtype or tensor.dtype).pin_memory().to(device, non_blocking=True)
