"""How many trials share a GPU, and what becomes of one that ran out of its memory."""

import pytest

from fedbench.tune.shares import CONTEXT, Shares, gpu_types, share_of, trials_on_a_gpu

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


def test_what_is_reserved_and_what_cuda_takes_fit_into_the_share() -> None:
    for trial in range(1, 20):
        trials = trials_on_a_gpu(trial * GIB, 80 * GIB, 100)
        assert trials * (trial * GIB + CONTEXT) <= 80 * GIB
        assert trial * GIB <= share_of(trials) * 80 * GIB


def test_a_trial_out_of_memory_gets_twice_the_share_once() -> None:
    shares = Shares(0.25)
    assert shares.grow("a", "OutOfMemoryError: CUDA out of memory") == 0.5
    assert (shares.of("a"), shares.of("b")) == (0.5, 0.25)
    assert shares.grow("a", "OutOfMemoryError: CUDA out of memory") is None
    assert shares.grow("b", "RuntimeError: CUBLAS_STATUS_ALLOC_FAILED") == 0.5


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
