"""How many trials share a GPU, and what becomes of one that ran out of its memory."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedbench.cost.shares import (
    CONTEXT,
    Packing,
    Shares,
    default_share,
    gpu_types,
    share_of,
    spread,
    trials_on_a_gpu,
)
from fedbench.store.gpu import device_number, memory_fraction

GIB = 2**30


@pytest.mark.parametrize(
    ("trial", "gpu", "measured", "wanted"),
    [
        (None, None, None, 4),  # nothing is known
        (1 * GIB, None, None, 4),  # the cluster does not tell
        (None, 80 * GIB, 8, 8),
        (1 * GIB, 80 * GIB, None, 4),
        (1 * GIB, 80 * GIB, 8, 8),  # as measured, since they fit
        (1 * GIB, 80 * GIB, 1, 1),
        (3 * GIB, 16 * GIB, 8, 4),  # as many as fit
        (10 * GIB, 16 * GIB, None, 1),
        (99 * GIB, 16 * GIB, None, 1),  # it is tried, alone
    ],
)
def test_as_many_trials_share_a_gpu_as_were_best_and_fit(
    trial: float | None, gpu: float | None, measured: int | None, wanted: int
) -> None:
    assert trials_on_a_gpu(trial, gpu, measured) == wanted


@pytest.mark.parametrize("trials", range(1, 40))
def test_so_many_trials_fit_on_one_gpu_as_ray_counts(trials: int) -> None:
    assert trials * round(share_of(trials) * 10_000) <= 10_000
    assert (trials + 1) * round(share_of(trials) * 10_000) > 10_000


@given(trial=st.floats(0.1, 60), context=st.floats(0.1, 2))
def test_what_trials_reserve_and_what_cuda_takes_fit_onto_the_gpu(trial: float, context: float) -> None:
    gpu = 80 * GIB
    trials = trials_on_a_gpu(trial * GIB, gpu, 100, context * GIB)
    fraction = memory_fraction(share_of(trials), context * GIB, gpu)
    assert trials * (fraction * gpu + context * GIB) <= gpu * (1 + 1e-9), "even if all take what they may"
    assert trial * GIB <= fraction * gpu


def test_a_larger_context_leaves_less_for_trials() -> None:
    assert trials_on_a_gpu(1 * GIB, 16 * GIB, 8, CONTEXT) == 8
    assert trials_on_a_gpu(1 * GIB, 16 * GIB, 8, 2 * GIB) == 5
    assert memory_fraction(0.01, CONTEXT, 16 * GIB) == 0.0


@pytest.mark.parametrize(
    ("gpu", "environment", "wanted"),
    [
        ("2", {"CUDA_VISIBLE_DEVICES": "2"}, 0),  # Ray shows the process its own one
        ("2", {"CUDA_VISIBLE_DEVICES": "4, 2,0"}, 1),  # Ray leaves what the user has set
        ("2", {}, 2),  # Ray sets nothing
        ("2", {"CUDA_VISIBLE_DEVICES": ""}, 2),
        ("GPU-1b2", {"CUDA_VISIBLE_DEVICES": "GPU-0a1,GPU-1b2"}, 1),
        ("MIG-1b2", {"CUDA_VISIBLE_DEVICES": "MIG-1b2"}, 0),
        ("3", {"HIP_VISIBLE_DEVICES": "3"}, 0),
        ("1", {"ROCR_VISIBLE_DEVICES": "0,1"}, 1),
        ("5", {"CUDA_VISIBLE_DEVICES": "GPU-0a1"}, 0),  # named in another way
    ],
)
def test_the_gpu_that_ray_gives_is_found_among_those_that_torch_sees(
    gpu: str, environment: dict[str, str], wanted: int
) -> None:
    assert device_number(gpu, environment) == wanted


def test_a_trial_out_of_memory_gets_twice_the_share_once() -> None:
    shares = Shares(0.25)
    assert shares.grow("a", "OutOfMemoryError: CUDA out of memory") == 0.5
    assert (shares.of("a"), shares.of("b")) == (0.5, 0.25)
    assert shares.grow("a", "OutOfMemoryError: CUDA out of memory") is None
    assert shares.grow("b", "RuntimeError: CUBLAS_STATUS_ALLOC_FAILED") == 0.5


def test_a_trial_that_had_more_than_the_others_gets_twice_of_that() -> None:
    shares = Shares(0.25)
    assert shares.grow("a", "OutOfMemoryError: x", 0.5) == 1.0
    assert shares.grow("b", "OutOfMemoryError: x", 1.0) is None


def test_what_may_be_a_lack_of_memory_is_tried_again_too() -> None:
    assert Shares(0.25).grow("a", "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED") == 0.5


NEEDS = {"CPU": 1.0, "GPU": 0.25}


def nodes(*gpus: int, cpus: float = 64) -> list[dict[str, float]]:
    return [{"CPU": cpus, "GPU": float(count)} for count in gpus]


@pytest.mark.parametrize(
    ("trials", "there", "wanted"),
    [
        (2, nodes(4), [1.0, 1.0]),
        (4, nodes(4), [1.0] * 4),
        (6, nodes(4), [0.5] * 4 + [1.0] * 2),  # two GPUs with two trials, two with one
        (6, nodes(2, 2), [0.5] * 4 + [1.0] * 2),
        (9, nodes(4), [0.3333] * 3 + [0.5] * 6),
        (100, nodes(4), [0.25] * 16),
        (100, nodes(4, cpus=8), [0.5] * 8),  # CPUs hold back more of them
        (100, [*nodes(4, cpus=2), *nodes(1)], [0.25] * 4 + [1.0] * 2),
        (3, [{"CPU": 8.0}, *nodes(2)], [0.5, 0.5, 1.0]),
    ],
)
def test_trials_are_spread_over_all_gpus(trials: int, there: list[dict[str, float]], wanted: list[float]) -> None:
    assert spread(trials, there, NEEDS) == wanted


def placed(shares: list[float], gpus: int) -> list[list[float]]:
    """Put every trial onto the fullest GPU that can still take it, one after the other, as Ray does."""
    there: list[list[float]] = [[] for _ in range(gpus)]
    for share in shares:
        fit = [gpu for gpu in there if sum(gpu) + share <= 1 + 1e-9]
        assert fit, "it would wait"
        max(fit, key=sum).append(share)
    return there


@given(left=st.integers(1, 60), gpus=st.integers(2, 9), most=st.integers(1, 8))
def test_at_the_start_no_gpu_has_more_than_its_part_of_the_trials(left: int, gpus: int, most: int) -> None:
    packing = Packing(left, {"CPU": 1.0, "GPU": share_of(most)}, gpus * most, nodes(gpus, cpus=1000))
    assert packing.at_once == gpus * most
    shares = [packing.take(str(trial))["GPU"] for trial in range(min(left, packing.at_once))]
    counts = Counter(len(gpu) for gpu in placed(shares, gpus))
    assert max(counts) == min(most, -(-left // gpus))
    assert max(counts) - min(counts) <= 1


@given(data=st.data(), left=st.integers(1, 60), gpus=st.integers(2, 5), most=st.integers(2, 6))
def test_up_to_the_end_no_trial_joins_a_gpu_that_has_its_part_already(
    data: st.DataObject, left: int, gpus: int, most: int
) -> None:
    packing = Packing(left, {"CPU": 1.0, "GPU": share_of(most)}, gpus * most, nodes(gpus, cpus=1000))
    waiting, running = list(range(left)), dict[int, float]()
    while waiting or running:
        while waiting and len(running) < packing.at_once:
            still = len(waiting) + len(running)
            trial = waiting.pop()
            running[trial] = packing.take(str(trial))["GPU"]
            assert int(1 / running[trial]) <= -(-still // gpus), "so many have such a share of one GPU"
        for trial in data.draw(st.lists(st.sampled_from(sorted(running)), min_size=1, unique=True)):
            del running[trial]
            packing.ended(str(trial))


def test_without_nodes_all_trials_take_the_same() -> None:
    packing = Packing(2, {"CPU": 0.5, "GPU": 0.0, "x": 1.0}, 7)
    assert [packing.take("a"), packing.take("b")] == [{"CPU": 0.5, "x": 1.0}] * 2
    assert packing.at_once == 7


@pytest.mark.parametrize(
    ("share", "reason"),
    [
        (0.25, "ValueError: no"),
        (1.0, "OutOfMemoryError: x"),
        (2.0, "OutOfMemoryError: x"),
        (0.0, "OutOfMemoryError: x"),
    ],
)
def test_other_failures_and_whole_gpus_and_cpus_have_nothing_to_gain(share: float, reason: str) -> None:
    shares = Shares(share)
    assert shares.grow("a", reason) is None
    assert shares.of("a") == share


def test_more_than_a_whole_gpu_is_of_no_use() -> None:
    shares = Shares(0.7)
    assert shares.grow("a", "OutOfMemoryError: x") == 1.0


def test_gpus_are_counted_by_type() -> None:
    nodes = [
        {"CPU": 8.0, "GPU": 4.0, "accelerator_type:A100": 1.0},
        {"CPU": 8.0, "GPU": 2.0, "accelerator_type:T4": 1.0},
        {"CPU": 8.0, "GPU": 4.0, "accelerator_type:A100": 1.0},
        {"CPU": 8.0, "accelerator_type:TPU-V4": 1.0},
        {"CPU": 8.0, "GPU": 1.0},
    ]
    assert gpu_types(nodes) == {"A100": 8, "T4": 2}


@pytest.mark.parametrize(
    ("gpus", "share"),
    [
        ([0.0, 0.0], 0.0),  # torch can use none
        ([0.0, None], 0.25),  # a node that does not tell may have one
        ([16.0 * GIB, 80.0 * GIB], 1.0),  # the smallest one counts
        ([16.0 * GIB, None], 0.25),  # the smallest one is not known
        ([80.0 * GIB, 80.0 * GIB], 0.25),
    ],
)
def test_trials_without_a_share_get_one_by_the_smallest_gpu_that_torch_can_use(
    gpus: list[float | None], share: float
) -> None:
    found, line = default_share(10 * GIB, gpus, None, CONTEXT)
    assert found == share
    assert line.startswith(f"--gpus-per-trial {share:g}")
