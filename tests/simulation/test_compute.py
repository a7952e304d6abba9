"""What is set in torch for the time of a round, and restored after it."""

from typing import Any

import pytest
import torch
import torch.utils.deterministic

from fedbench.config import RunConfig
from fedbench.models.precision import PRECISIONS
from fedbench.simulation.compute import exact

BACKENDS: Any = torch.backends
KERNELS = {
    "matrix products on GPUs": BACKENDS.cuda.matmul,
    "convolutions on GPUs": BACKENDS.cudnn.conv,
    "recurrent layers on GPUs": BACKENDS.cudnn.rnn,
    "matrix products on CPUs": BACKENDS.mkldnn.matmul,
    "convolutions on CPUs": BACKENDS.mkldnn.conv,
    "recurrent layers on CPUs": BACKENDS.mkldnn.rnn,
}


@pytest.mark.parametrize("name", KERNELS)
def test_float32_is_not_rounded_to_less(name: str) -> None:
    before = KERNELS[name].fp32_precision
    with exact(RunConfig(), torch.device("cpu")):
        assert KERNELS[name].fp32_precision == "ieee"
    assert KERNELS[name].fp32_precision == before


@pytest.mark.parametrize("filled", [True, False])
def test_memory_is_not_filled_before_it_is_written(filled: bool) -> None:
    switches: Any = torch.utils.deterministic
    before, switches.fill_uninitialized_memory = switches.fill_uninitialized_memory, filled
    try:
        with exact(RunConfig(), torch.device("cpu")):
            assert not switches.fill_uninitialized_memory
        assert switches.fill_uninitialized_memory == filled
    finally:
        switches.fill_uninitialized_memory = before


def test_tf32_is_refused_on_gpus_that_would_compute_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "hip", "6.4")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 4))
    assert PRECISIONS["tf32"].refuses(torch.device("cuda")) == "AMD's GPUs have no TF32"
    assert PRECISIONS["bfloat16"].refuses(torch.device("cuda")) is None
