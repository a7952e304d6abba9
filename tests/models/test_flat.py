"""The flat vector: its order, its views, and its conversions to and from a state dict."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import vector_to_parameters

from fedbench import UserError
from fedbench.models import FlatModel, build, initial

CPU = torch.device("cpu")
COLOUR = (3, 32, 32)
LIGHT = ["mlp", "lenet5", "simple_cnn", "resnet8"]


def flat(name: str) -> FlatModel:
    return initial(name, COLOUR, 10, 8, CPU, torch.float64)


def numbered(model: FlatModel) -> tuple[Tensor, Tensor]:
    """Vectors [P] and [Q] whose elements all differ."""
    w = torch.arange(len(model.w), dtype=torch.float64)
    return w, torch.arange(len(model.buffers), dtype=torch.float64) + len(w)


@pytest.mark.parametrize("name", LIGHT)
def test_vectors_come_back_from_a_state_dict_as_they_were(name: str) -> None:
    model = flat(name)
    before = model.w.clone()
    w, buffers = numbered(model)
    back = model.from_state_dict(model.to_state_dict(w, buffers))
    assert torch.equal(back[0], w)
    assert torch.equal(back[1], buffers)
    assert torch.equal(model.w, before), "a conversion leaves the model as it is"


@pytest.mark.parametrize("name", LIGHT)
def test_a_state_dict_comes_back_from_vectors_as_it_was_and_loads_strictly(name: str) -> None:
    torch.manual_seed(3)
    module, other = build(name, COLOUR, 10).double(), build(name, COLOUR, 10).double()
    state = module.state_dict()
    model = flat(name)
    back = model.to_state_dict(*model.from_state_dict(state))
    counts = {key for key in state if key.endswith("num_batches_tracked")}
    assert back.keys() == state.keys() - counts
    assert all(torch.equal(back[key], state[key]) and back[key].is_contiguous() for key in back)
    other.load_state_dict(back)


def test_a_state_dict_shares_no_memory_with_the_vectors() -> None:
    model = flat("mlp")
    state = model.to_state_dict(model.w, model.buffers)
    kept = {name: tensor.clone() for name, tensor in state.items()}
    model.w.zero_()
    assert all(torch.equal(state[name], kept[name]) for name in kept)


def test_modules_that_share_a_tensor_get_it_under_each_of_its_names() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second, self.norm = nn.Linear(4, 4), nn.Linear(4, 4), nn.BatchNorm1d(4)
            self.second.weight, self.again = self.first.weight, self.norm

    model = FlatModel(Tied(), CPU, torch.float64)
    w, buffers = numbered(model)
    state = model.to_state_dict(w, buffers)
    assert torch.equal(state["first.weight"], state["second.weight"])
    assert torch.equal(state["norm.running_var"], state["again.running_var"])
    plain = Tied().double()
    plain.load_state_dict(state)
    again = model.from_state_dict(plain.state_dict())
    assert torch.equal(again[0], w) and torch.equal(again[1], buffers)


def without(state: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in state.items() if key != name}


def test_a_state_dict_of_another_model_is_one_clear_line() -> None:
    model = flat("simple_cnn")
    state = model.to_state_dict(model.w, model.buffers)
    name = model.layers.tensors[0].name
    shape = tuple(state[name].shape)
    for wrong, says in [
        (without(state, name), f"lacks the model's tensor '{name}'"),
        ({**state, "extra": torch.ones(1)}, "the model has no tensor 'extra'"),
        ({**state, name: torch.ones(2, 2)}, f"'{name}' has the shape (2, 2); must be {shape}"),
    ]:
        with pytest.raises(UserError) as refused:
            model.from_state_dict(wrong)
        assert says in str(refused.value)
        assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", LIGHT)
def test_a_tensors_view_has_its_true_shape_in_one_vector_and_in_those_of_all_clients(name: str) -> None:
    model = flat(name)
    w, buffers = numbered(model)
    W = torch.stack([w, -w, 2 * w])
    state = model.to_state_dict(w, buffers)
    for span in model.layers.tensors:
        assert torch.equal(span.view(w), state[span.name])
        assert torch.equal(span.view(W), torch.stack([state[span.name], -state[span.name], 2 * state[span.name]]))
        assert span.view(W[None])[0, 1].shape == span.shape == state[span.name].shape


def test_what_is_written_to_a_view_is_written_to_the_vector() -> None:
    model = flat("simple_cnn")
    span = model.layers.tensors[0]
    _, i, h, w = span.shape
    W = torch.zeros(2, len(model.w), dtype=torch.float64)
    span.view(W)[1, 3, 2, 1, 0] = 7.0
    (place,) = W[1].nonzero().flatten().tolist()
    assert place == span.start + ((3 * h + 1) * w + 0) * i + 2, "a 4-d weight is stored as (O, H, W, I)"
    assert not W[0].any()


def test_torchs_own_conversion_would_scramble_a_convolution() -> None:
    model, module = flat("simple_cnn"), build("simple_cnn", COLOUR, 10).double()
    state = model.to_state_dict(model.w, model.buffers)
    model.copy_into(module, model.w, model.buffers)
    assert all(torch.equal(tensor, state[name]) for name, tensor in module.named_parameters())
    vector_to_parameters(model.w, module.parameters())
    wrong = {name for name, tensor in module.named_parameters() if not torch.equal(tensor, state[name])}
    assert wrong == {span.name for span in model.layers.tensors if len(span.shape) == 4}
