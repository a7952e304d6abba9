import numpy as np
import torch

from fedbench.base.tensors import on_device

CPU = torch.device("cpu")


def test_values_keep_their_type_or_get_another() -> None:
    assert on_device([1, 2], CPU).dtype == torch.int64
    assert on_device([True, False], CPU).dtype == torch.bool
    assert on_device([[0.5, 1.5]], CPU).dtype == torch.float64
    third = np.array([1 / 3])
    assert torch.equal(on_device(third, CPU, torch.float32), torch.tensor([1 / 3], dtype=torch.float32))
