from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from fedbench import ConfigError
from fedbench.models import MODELS, FlatModel, build, has_batch_norm, initial, register_model

CPU = torch.device("cpu")
GREY, COLOUR = (1, 28, 28), (3, 32, 32)
LIGHT = ["mlp", "lenet5", "simple_cnn", "resnet8", "resnet20"]


def make(
    name: str, shape: tuple[int, int, int] = COLOUR, seed: int = 8, dtype: torch.dtype = torch.float64
) -> FlatModel:
    return initial(name, shape, 10, seed, CPU, dtype)


@pytest.mark.parametrize(
    ("name", "shape", "count"), [("mlp", GREY, 199_210), ("simple_cnn", COLOUR, 122_570), ("resnet20", COLOUR, 272_474)]
)
def test_parameter_counts_are_the_papers(name: str, shape: tuple[int, int, int], count: int) -> None:
    assert len(make(name, shape).w) == count


@pytest.mark.parametrize(("name", "count"), [("alexnet", 23_272_266), ("alexnet_small", 1_756_426)])
def test_an_alexnet_can_be_large_or_small(name: str, count: int) -> None:
    with torch.device("meta"):
        assert sum(parameter.numel() for parameter in build(name, COLOUR, 10).parameters()) == count


def test_all_models_of_the_paper_are_there() -> None:
    wanted = "mlp lenet5 simple_cnn alexnet resnet8 resnet20 resnet56 resnet110 wrn56_4 densenet121"
    assert set(wanted.split()) <= set(MODELS)


@pytest.mark.parametrize("classes", [10, 100])
@pytest.mark.parametrize("shape", [GREY, COLOUR])
@pytest.mark.parametrize("name", list(MODELS))
def test_every_model_maps_every_shape_to_logits(name: str, shape: tuple[int, int, int], classes: int) -> None:
    with torch.device("meta"):
        logits = build(name, shape, classes)(torch.empty(2, *shape))
    assert logits.shape == (2, classes)


@pytest.mark.parametrize(
    ("name", "depth"),
    [("resnet8", 8), ("resnet20", 20), ("resnet56", 56), ("resnet110", 110), ("wrn56_4", 56), ("densenet121", 121)],
)
def test_depth_counts_the_weighted_layers(name: str, depth: int) -> None:
    with torch.device("meta"):
        model = build(name, COLOUR, 10)
    layers = [
        layer
        for path, layer in model.named_modules()
        if isinstance(layer, nn.Conv2d | nn.Linear) and "shortcut" not in path
    ]
    assert len(layers) == depth


@pytest.mark.parametrize("name", LIGHT)
def test_a_flat_model_computes_what_the_module_does(name: str) -> None:
    torch.manual_seed(0)
    module = build(name, COLOUR, 10).to(torch.float64)
    twin = build(name, COLOUR, 10).to(torch.float64)
    twin.load_state_dict(module.state_dict())
    flat = FlatModel(twin, CPU, torch.float64)
    x, y = torch.rand(4, *COLOUR, dtype=torch.float64), torch.tensor([1, 2, 3, 4])
    loss, other = F.cross_entropy(module(x), y), F.cross_entropy(flat(x), y)
    loss.backward()
    other.backward()
    assert torch.allclose(loss, other, rtol=1e-12)
    for own, reference in zip(flat.module.parameters(), module.parameters(), strict=True):
        assert own.grad is not None
        assert reference.grad is not None
        assert torch.allclose(own.grad, reference.grad, atol=1e-12)
    wanted = [b for name, b in module.named_buffers() if "num_batches" not in name]
    for buffer, expected in zip(flat.module.buffers(), wanted, strict=True):
        assert torch.allclose(buffer, expected, atol=1e-12)


@pytest.mark.parametrize("name", LIGHT)
def test_the_flat_vectors_are_the_models_memory(name: str) -> None:
    model = make(name)
    model.load(torch.arange(len(model.w), dtype=torch.float64), model.buffers + 1)
    total = sum(p.detach().sum() for p in model.module.parameters())
    assert total == model.w.sum()
    F.cross_entropy(model(torch.rand(2, *COLOUR, dtype=torch.float64)), torch.tensor([0, 1])).backward()
    assert torch.isclose(sum(p.grad.sum() for p in model.module.parameters()), model.grad.sum())  # type: ignore[union-attr, misc, arg-type]
    for parameter in model.module.parameters():
        assert parameter.untyped_storage().data_ptr() == model.w.untyped_storage().data_ptr()
        if parameter.dim() == 4:
            assert parameter.is_contiguous(memory_format=torch.channels_last)


def test_initial_weights_depend_on_architecture_shape_and_seed_alone() -> None:
    first = make("mlp").w.clone()
    torch.manual_seed(123)
    torch.rand(10)
    state = torch.get_rng_state()
    assert torch.equal(make("mlp").w, first)
    assert torch.equal(torch.get_rng_state(), state)
    assert not torch.equal(make("mlp", seed=9).w, first)
    assert torch.equal(make("mlp", dtype=torch.float32).w.double(), first)


def test_batch_norm_is_found_by_looking() -> None:
    assert has_batch_norm("resnet8", COLOUR, 10)
    assert not has_batch_norm("simple_cnn", COLOUR, 10)


@pytest.mark.parametrize("name", ["mlp", "resnet8"])
def test_a_saved_model_loads_into_a_plain_module(name: str) -> None:
    model = make(name, dtype=torch.float32)
    module = build(name, COLOUR, 10)
    missing = module.load_state_dict(model.to_state_dict(model.w, model.buffers), strict=False)
    assert all("num_batches_tracked" in key for key in missing.missing_keys)
    assert not missing.unexpected_keys
    module.eval()
    model.train(False)
    x = torch.rand(2, *COLOUR)
    assert torch.allclose(module(x), model(x), atol=1e-5)


def test_images_too_small_for_a_model_are_a_clear_error() -> None:
    with pytest.raises(ConfigError, match="'alexnet' cannot be built for 1x8x8 images"):
        build("alexnet", (1, 8, 8), 10)


def test_a_model_from_outside_is_used_by_its_name_and_a_name_is_taken_once() -> None:
    @register_model("linear-test", version="1")
    def linear(shape: Any, num_classes: int) -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Linear(784, num_classes))

    assert len(make("linear-test", GREY).w) == 7850
    with pytest.raises(ConfigError, match="registered already"):
        register_model("linear-test")(lambda shape, classes: nn.Flatten())
