"""The normalization of models, and initial weights from a file."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from fedbench import ConfigError, Simulation, TrialConfig, UserError
from fedbench.models import built, has_batch_norm
from fedbench.models.norm import model_and_norm, network_name
from fedbench.simulation.federation import check_data
from fedbench.store.models import final_model
from fedbench.testing import check_model
from fedbench.testing.runs import finished, resumed, same
from tests.commands import trial

Make = Callable[..., TrialConfig]
COLOUR = (3, 32, 32)
NORMALIZED = ["resnet8", "resnet20", "densenet121"]
SMALL: dict[str, Any] = {"model": "resnet8", "data__train_size": 90, "data__test_size": 60, "rounds": 2}


def test_the_name_of_a_network_is_its_model_and_its_norm() -> None:
    assert network_name("resnet20", "batch") == "resnet20"
    assert model_and_norm(network_name("resnet20", "group")) == ("resnet20", "group")
    assert model_and_norm("mine/net") == ("mine/net", "batch")


@pytest.mark.parametrize("norm", ["group", "none"])
@pytest.mark.parametrize("name", NORMALIZED)
def test_no_batch_norm_is_left_and_all_other_weights_stay(name: str, norm: str) -> None:
    plain, other = built(name, COLOUR, 10, 8), built(f"{name}/{norm}", COLOUR, 10, 8)
    layers = [layer for layer in plain.modules() if isinstance(layer, nn.BatchNorm2d)]
    groups = [layer for layer in other.modules() if isinstance(layer, nn.GroupNorm)]
    assert not any(isinstance(layer, nn.BatchNorm2d) for layer in other.modules())
    assert len(groups) == (len(layers) if norm == "group" else 0)
    assert {layer.num_groups for layer in groups} <= {2}
    assert not has_batch_norm(f"{name}/{norm}", COLOUR, 10)
    weights, kept = dict(plain.named_parameters()), dict(other.named_parameters())
    assert {key for key in weights if key not in kept} == (
        set() if norm == "group" else {key for key, weight in weights.items() if key not in kept and weight.dim() == 1}
    )
    assert all(torch.equal(weights[key], weight) for key, weight in kept.items())


def test_group_norm_is_the_formula_and_an_image_does_not_depend_on_its_batch() -> None:
    module = built("resnet8/group", COLOUR, 10, 8).double()
    layer = module.get_submodule("bn1")
    x = torch.randn(3, 16, 5, 5, dtype=torch.float64)
    halves = x.view(3, 2, -1)
    expected = (halves - halves.mean(2, keepdim=True)) / (halves.var(2, unbiased=False, keepdim=True) + 1e-5).sqrt()
    assert torch.allclose(layer(x), expected.view_as(x), rtol=0, atol=1e-12)
    images = torch.randn(4, *COLOUR, dtype=torch.float64)
    assert torch.allclose(module.train()(images)[:1], module(images[:1]), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["resnet8/group", "resnet8/none"])
def test_it_holds_what_every_model_promises(name: str) -> None:
    check_model(name)


@pytest.mark.parametrize("norm", ["group", "none"])
def test_a_run_has_the_norm_that_is_asked_for_and_no_statistics(tiny: Make, norm: str) -> None:
    made = tiny(**SMALL, norm=norm, method__name="fedlaw", method__epochs=2)
    run = finished(Simulation(made))
    assert len(run.state.buffers) == 0
    assert not any(isinstance(layer, nn.BatchNorm2d) for layer in run.module().modules())
    assert same(run, resumed(made, 1))


def test_batch_norm_is_what_it_was_and_the_norm_is_part_of_the_hash(tiny: Make) -> None:
    assert tiny(**SMALL).hash == tiny(**SMALL, norm="batch").hash
    assert len({tiny(**SMALL, norm=norm).hash for norm in ("batch", "group", "none")}) == 3
    assert tiny(**SMALL, norm="group", bn="proxy").hash == tiny(**SMALL, norm="group").hash, "there are no statistics"


def test_a_model_without_batch_norm_has_none_to_replace(tiny: Make) -> None:
    with pytest.raises(ConfigError, match="norm = group: model 'mlp' has no batch norm to replace; must be batch"):
        tiny(model="mlp", norm="group")


def state(path: Path, name: str = "mlp", bias: float | None = None) -> Path:
    """Save the weights of a module with another seed, with another bias in the first layer if one is given."""
    weights = {key: tensor.clone() for key, tensor in built(name, (1, 28, 28), 10, 99).state_dict().items()}
    if bias is not None:
        weights["1.bias"].fill_(bias)
    torch.save(weights, path)
    return path


@pytest.mark.parametrize("model", ["mlp", "resnet8"])
def test_a_run_starts_from_the_weights_in_a_file(tiny: Make, tmp_path: Path, model: str) -> None:
    file = state(tmp_path / "start.pt", model)
    run = Simulation(tiny(**{**SMALL, "model": model}, init=str(file)))
    wanted = built(model, (1, 28, 28), 10, 99).state_dict()
    found = run.model.to_state_dict(run.state.w, run.state.buffers)
    assert all(torch.equal(wanted[key], tensor) for key, tensor in found.items() if "num_batches" not in key)
    assert run.config.hash == tiny(**{**SMALL, "model": model}, init__path=str(file)).hash, "init: FILE is short for it"
    for seed in (1, 2):
        assert torch.equal(
            Simulation(tiny(**{**SMALL, "model": model}, init=str(file), seed=seed)).state.w, run.state.w
        )


def test_a_run_goes_on_from_the_model_that_another_one_kept(tiny: Make, tmp_path: Path) -> None:
    first = finished(Simulation(tiny()))
    (tmp_path / "model.pt").write_bytes(final_model(first))
    second = Simulation(tiny(init=str(tmp_path / "model.pt")))
    assert torch.equal(second.state.w, first.state.w)
    assert same(finished(second), resumed(second.config, 1))


def test_the_digest_of_the_weights_is_part_of_the_hash_and_the_place_is_not(tiny: Make, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    one, two = state(tmp_path / "one.pt"), state(tmp_path / "there" / "two.pt")
    other = state(tmp_path / "other.pt", bias=1.0)
    hashes = [tiny(init=str(path)).hash for path in (one, two, other)]
    assert hashes[0] == hashes[1] and len({*hashes, tiny().hash}) == 3
    stored = tiny(init=str(one)).plain()
    one.unlink()
    assert TrialConfig(**stored).hash == hashes[0], "a stored config needs no file"
    with pytest.raises(UserError, match=r"init\.path = .*one\.pt: is not there"):
        Simulation(TrialConfig(**stored))


def test_a_file_that_has_changed_is_refused(tiny: Make, tmp_path: Path) -> None:
    made = tiny(init=str(state(tmp_path / "start.pt")))
    state(tmp_path / "start.pt", bias=1.0)
    with pytest.raises(UserError, match="the file has changed since this config was made"):
        Simulation(made)


def write(path: Path, kind: str) -> None:
    """A file that is wrong in some way."""
    mlp = built("mlp", (1, 28, 28), 10, 1).state_dict()
    first = next(iter(mlp))
    content: dict[str, Any] = {
        "other keys": {f"net.{key}": tensor for key, tensor in mlp.items()},
        "a key less": {key: tensor for key, tensor in mlp.items() if key != first},
        "a key more": {**mlp, "head": torch.zeros(3)},
        "other shapes": {**mlp, first: torch.zeros(3, 3)},
        "nan": {**mlp, first: torch.full_like(mlp[first], torch.nan)},
        "a wrapped one": {"state_dict": mlp},
        "a tensor": torch.zeros(3),
        "nothing": {},
        "a module": nn.Linear(2, 2),
    }
    if kind == "text":
        path.write_text("weights")
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "a folder":
        path.mkdir()
    elif kind == "half":
        torch.save(mlp, path)
        path.write_bytes(path.read_bytes()[:1000])
    elif kind != "missing":
        torch.save(content[kind], path)


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("missing", "is not there; looked in"),
        ("other keys", "the model has no tensor 'net."),
        ("a key less", "lacks the model's tensor"),
        ("a key more", "the model has no tensor 'head'"),
        ("other shapes", r"has the shape \(3, 3\); must be"),
        ("nan", "has numbers that are not finite and real"),
        ("a wrapped one", "is not a state dict"),
        ("a tensor", "is not a state dict"),
        ("nothing", "is not a state dict"),
        ("a module", "cannot be read as tensors by name"),
        ("text", "cannot be read as tensors by name"),
        ("empty", "cannot be read as tensors by name"),
        ("half", "cannot be read as tensors by name"),
        ("a folder", "cannot be read as tensors by name"),
    ],
)
def test_wrong_weights_get_one_line_before_anything_is_run(tiny: Make, tmp_path: Path, kind: str, line: str) -> None:
    path = tmp_path / "start.pt"
    write(path, kind)
    with pytest.raises(UserError, match=f"^init.path = .*{line}") as error:
        check_data([tiny(init=str(path))], None)
    assert "\n" not in str(error.value)


def test_the_command_refuses_wrong_weights_before_it_writes_anything(tmp_path: Path) -> None:
    write(tmp_path / "start.pt", "other keys")
    arguments = ["--set", f"init.path={tmp_path / 'start.pt'}", "--out", str(tmp_path / "run")]
    with pytest.raises(UserError, match="state dict: the model has no tensor") as error:
        trial(arguments)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "run").exists()


def test_weights_from_a_file_leave_nothing_to_draw(tiny: Make, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"init\.draw = 1: init\.path gives the initial weights; must be 0"):
        tiny(init__path=str(state(tmp_path / "start.pt")), init__draw=1)
