"""What is compared on a machine."""

from fedbench.cost.cases import Machine, Setting, cases, settings

PRECISIONS = ["float32", "tf32", "bfloat16", "float64"]


def test_on_cpus_trials_with_more_and_more_threads_use_all_of_them() -> None:
    found = settings(Machine("cpu", "x", 16), PRECISIONS)
    full = [s for s in found if s.at_once * s.threads > 1]
    assert [(s.at_once, s.threads) for s in full] == [(16, 1), (8, 2), (4, 4), (2, 8)]
    assert {s.engine for s in found} == {"eager"}
    assert [s.precision for s in found if s.at_once * s.threads == 1] == PRECISIONS


def test_on_one_cpu_there_is_one_way() -> None:
    assert settings(Machine("cpu", "x", 1), ["float32"]) == [Setting("eager", "float32", 1, 1)]


def test_on_a_gpu_engines_precisions_and_trials_at_once_are_compared() -> None:
    found = settings(Machine("cuda", "x", 32, 1, 2**34), PRECISIONS)
    assert Setting("eager", "float32", 1, 1) in found
    assert [s.precision for s in found if s.engine == "graphed" and s.at_once == 1] == PRECISIONS
    assert [s.at_once for s in found if s.at_once > 1] == [2, 4, 8]
    assert len(found) == len(set(found))


def test_no_more_trials_at_once_than_cpus() -> None:
    assert max(s.at_once for s in settings(Machine("cuda", "x", 3, 1, 2**34), ["float32"])) == 2


def test_every_model_is_measured_in_every_way() -> None:
    machine = Machine("cpu", "x", 2)
    found = cases([("cifar10", "simple_cnn"), ("fashion_mnist", "mlp")], machine, PRECISIONS)
    assert len(found) == 2 * len(settings(machine, PRECISIONS))
    assert [case.setting.precision for case in found[:6]] == ["float32"] * 6
    assert str(found[5]) == "mlp, eager, float32, 1 at once, 2 threads"


def test_ray_fills_all_cpus_so_that_one_trial_alone_is_no_way_to_run_there() -> None:
    machine, gpu = Machine("cpu", "x", 4), Machine("cuda", "x", 4, 1, 2**34)
    assert [machine.used(Setting("eager", "float32", n, t)) for n, t in [(1, 1), (4, 1), (2, 2), (1, 4)]] == [
        False,
        True,
        True,
        True,
    ]
    assert gpu.used(Setting("graphed", "float32", 1, 1))
