"""What a run has to compute, counted by hand."""

import pytest
import torch

from fedbench.cost.cases import Machine, Row
from fedbench.cost.memory import WORKSPACES, estimated_gpu_memory
from fedbench.cost.speeds import Speeds
from fedbench.cost.work import flops, kept_numbers, largest_layer, paper_config, parameter_count, round_samples
from fedbench.models import build

SHAPE = (1, 28, 28)


def test_operations_of_a_training_sample_are_those_of_its_matrix_products() -> None:
    layers = [m for m in build("mlp", SHAPE, 10).modules() if isinstance(m, torch.nn.Linear)]
    products = [2 * layer.in_features * layer.out_features for layer in layers]
    forward, backward = sum(products), 2 * sum(products) - products[0]  # images need no gradient
    assert flops(paper_config("fashion_mnist", "mlp")) == forward + backward


def test_what_is_kept_are_the_outputs_of_all_layers() -> None:
    module, outputs = build("mlp", SHAPE, 10), list[int]()
    for part in module.modules():
        if not list(part.children()):
            part.register_forward_hook(lambda _, __, output: outputs.append(output[0].numel()))
    module(torch.zeros(1, *SHAPE))
    assert kept_numbers("mlp", SHAPE, 10) == sum(outputs) > 0


def test_a_round_is_the_share_of_the_images_that_clients_train_on() -> None:
    config = paper_config("cifar10", "simple_cnn", **{"clients.epochs": 2, "clients.participation": 0.5})
    assert round_samples(config) == pytest.approx(2 * 0.5 * 0.7 * 50_000)


def test_a_gpu_holds_images_the_cohort_and_a_step() -> None:
    config = paper_config("cifar10", "simple_cnn")
    less = paper_config("cifar10", "simple_cnn", **{"clients.momentum_state": "reset"})
    parameters = parameter_count("simple_cnn", (3, 32, 32), 10)
    assert estimated_gpu_memory(config) - estimated_gpu_memory(less) == 19 * parameters * 4
    double = paper_config("cifar10", "simple_cnn", precision="float64")
    fixed = 60_000 * 32 * 32 * 3 + WORKSPACES  # images are bytes
    assert estimated_gpu_memory(double) - fixed == 2 * (estimated_gpu_memory(config) - fixed)


def test_scoring_takes_its_largest_layer_for_a_whole_batch() -> None:
    config = paper_config("cifar10", "simple_cnn")
    few = paper_config("cifar10", "simple_cnn", **{"data.test_size": 110})
    largest = largest_layer("simple_cnn", (3, 32, 32), 10)
    step = 2 * kept_numbers("simple_cnn", (3, 32, 32), 10) * config.clients.batch_size * 4
    assert 439 < 2000 * largest * 4 / 2**20 < 440
    more = estimated_gpu_memory(config) - estimated_gpu_memory(few)
    assert more == 2000 * largest * 4 - step


def test_a_step_takes_what_was_measured_on_a_gpu_and_not_on_cpus() -> None:
    config = paper_config("cifar10", "simple_cnn")
    row = Row("cifar10", "simple_cnn", "graphed", "float32", 1, 1, 1e5, 1e6, 60.0, 5 * 2**30, 10**7, 0.1)
    gpu = Speeds("2026-01-01", Machine("cuda", "x", 8, 1, 2**34), {}, (row,), {})
    cpu = Speeds("2026-01-01", Machine("cpu", "x", 8), {}, (row,), {})
    assert estimated_gpu_memory(config, gpu) > 5 * 2**30 > estimated_gpu_memory(config)
    assert estimated_gpu_memory(config, cpu) == estimated_gpu_memory(config)
