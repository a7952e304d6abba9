"""Where trials would go on machines with and without GPUs, and what is said of the cost there."""

from pathlib import Path

from fedbench.base.settings import dump_yaml
from fedbench.cost.cases import Machine, Row, Setting
from fedbench.cost.estimate import estimate, peak_gpu_memory
from fedbench.cost.memory import estimated_gpu_memory
from fedbench.cost.speeds import FOLDER, Speeds
from fedbench.cost.work import flops, paper_config
from fedbench.jobs.placement import informed, placement
from fedbench.specs.expand import expand
from fedbench.store.store import Store
from fedbench.tune.options import RunOptions
from tests.analysis.helpers import fill, summary
from tests.helpers import forge

CPU, GPU = Machine("cpu", "x", 6), Machine("cuda", "x", 64, 2, 16 * 2**30)
CNN = ("cifar10", "simple_cnn")


def keep(out: Path, machine: Machine, at_once: int, threads: int = 1, samples: float = 1000.0) -> Speeds:
    """Something that was measured on a machine, kept with the results in `out`."""
    engine = "graphed" if machine.gpus else "eager"
    rate = flops(paper_config(*CNN))
    row = Row(*CNN, engine, "float32", at_once, threads, samples, 1e12, 1.0, 3 * 2**30, rate, 0.1)
    speeds = Speeds("2026-11-17", machine, {}, (row,), {})
    (out / FOLDER).mkdir(parents=True)
    speeds.save(out / FOLDER)
    return speeds


def test_on_cpus_trials_take_no_gpu(tmp_path: Path) -> None:
    place = placement(RunOptions(tmp_path, cpus_per_trial=2), [paper_config(*CNN)], Store(tmp_path), CPU)
    assert (place.at_once, place.share, place.gpu_memory, place.pace, place.where) == (3, 0.0, 0.0, None, "CPUs")


def test_four_trials_share_a_gpu_where_nothing_was_measured(tmp_path: Path) -> None:
    config = paper_config(*CNN)
    place = placement(RunOptions(tmp_path), [config], Store(tmp_path), GPU)
    assert (place.at_once, place.share, place.where) == (8, 0.25, "GPUs")
    assert place.gpu_memory == estimated_gpu_memory(config)


def test_as_many_share_it_as_were_measured_to_be_best_and_fit(tmp_path: Path) -> None:
    keep(tmp_path, GPU, at_once=8)
    config = paper_config(*CNN)  # a step takes 3 GiB, as measured
    place = placement(RunOptions(tmp_path), [config], Store(tmp_path), GPU)
    assert (place.at_once, place.share) == (8, 0.25)
    several = placement(RunOptions(tmp_path), [config], Store(tmp_path), GPU, runs=2)
    assert (several.at_once, several.share) == (4, 0.5)


def test_a_share_that_was_asked_for_is_taken(tmp_path: Path) -> None:
    configs, store = [paper_config(*CNN)], Store(tmp_path)
    assert placement(RunOptions(tmp_path, gpus_per_trial=0.1), configs, store, GPU).at_once == 20
    none = placement(RunOptions(tmp_path, gpus_per_trial=0.0), configs, store, GPU)
    assert (none.at_once, none.share, none.where) == (64, 0.0, "CPUs")


def test_what_was_measured_on_a_gpu_says_nothing_of_trials_on_cpus(tmp_path: Path) -> None:
    keep(tmp_path, GPU, at_once=4)
    configs, store = [paper_config(*CNN)], Store(tmp_path)
    assert placement(RunOptions(tmp_path, gpus_per_trial=0.0), configs, store, GPU).pace is None
    pace = placement(RunOptions(tmp_path), configs, store, GPU).pace
    assert pace is not None
    assert pace.setting == Setting("graphed", "float32", 4, 1)


def test_stored_trials_tell_how_much_gpu_memory_their_kind_takes(tmp_path: Path) -> None:
    store, study = Store(tmp_path), expand("smoke", "quick", changes={}, only={}, seeds=[8])
    configs = list(study.trials.values())
    fill(store, study, lambda labels, seed: {**summary(0.5), "peak_gpu_reserved_bytes": 2**33})
    for config in configs:
        (store.trials / config.hash / "config.yaml").write_text(dump_yaml(config.plain()))
        forge(store.trials / config.hash, "config.yaml", str)
    assert set(peak_gpu_memory(store).values()) == {2**33}
    assert informed(RunOptions(tmp_path), configs, store, GPU).gpu_memory == 2**33
    assert placement(RunOptions(tmp_path), configs, store, GPU).share == 1.0


def test_where_there_can_be_no_gpu_nothing_is_looked_up(tmp_path: Path) -> None:
    options = RunOptions(tmp_path)
    assert informed(options, [paper_config(*CNN)], Store(tmp_path), CPU) is options


def test_the_cost_on_gpus_goes_by_what_was_measured_there(tmp_path: Path) -> None:
    speeds, config = keep(tmp_path, GPU, at_once=4), paper_config(*CNN)
    other = paper_config("cifar10", "resnet8")  # not measured: by its operations
    place = placement(RunOptions(tmp_path), [config, other], Store(tmp_path), GPU)
    assert place.pace is not None
    cost = estimate([config, other], Store(tmp_path), place.pace)
    setting = place.pace.setting
    expected = [speeds.seconds(each, setting) or 0.0 for each in (config, other)]
    assert abs(cost.seconds - sum(expected)) < 1e-6 * cost.seconds
    assert cost.source == "kinds of trials: 0 stored, 2 measured by fedbench.speed on 2026-11-17, 0 probed"
