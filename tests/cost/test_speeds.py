"""What follows from what was measured."""

from dataclasses import replace
from pathlib import Path

import pytest

from fedbench.base.errors import UserError
from fedbench.cost.cases import Case, Found, Machine, Row, Setting
from fedbench.cost.speeds import FILE, FOLDER, Speeds, known_speeds, row_of
from fedbench.cost.work import flops, paper_config, round_samples
from fedbench.data.official import cache_dir

CPU, GPU = Machine("cpu", "x", 2), Machine("cuda", "x", 8, 2, 2**34)
MLP, CNN = ("fashion_mnist", "mlp"), ("cifar10", "simple_cnn")


def row(model: tuple[str, str], setting: Setting, samples: float, scored: float = 1e9) -> Row:
    engine, precision, at_once, threads = setting
    operations = flops(paper_config(*model))
    return Row(*model, engine, precision, at_once, threads, samples, scored, 1.0, 2**28, operations, 0.3)


def speeds(machine: Machine, *rows: Row) -> Speeds:
    return Speeds("2026-11-17", machine, {"float32": 1e11}, rows, {"tf32": "needs a GPU"})


ALONE, PAIR, WIDE = (Setting("eager", "float32", *how) for how in ((1, 1), (2, 1), (1, 2)))
GRAPHED = [Setting("graphed", "float32", n, 1) for n in (1, 2, 4)]


def test_the_best_setting_trains_all_models_fastest() -> None:
    found = speeds(
        CPU, row(MLP, ALONE, 90), row(MLP, PAIR, 100), row(MLP, WIDE, 20), row(CNN, PAIR, 4), row(CNN, WIDE, 6)
    )
    assert found.best() == PAIR


def test_fewer_trials_at_once_are_taken_where_they_are_as_good() -> None:
    one, two, four = GRAPHED
    assert speeds(GPU, row(MLP, one, 50), row(MLP, two, 99), row(MLP, four, 100)).best() == two


def test_a_setting_that_a_model_could_not_be_measured_in_is_not_the_best() -> None:
    one, two, _ = GRAPHED
    assert speeds(GPU, row(MLP, one, 50), row(CNN, one, 5), row(MLP, two, 100)).best() == one


def test_an_engine_that_fell_back_to_another_is_counted_once() -> None:
    found = speeds(GPU, row(MLP, ALONE, 50), row(MLP, ALONE, 40), row(CNN, ALONE, 4), row(CNN, ALONE, 5))
    assert found.best() == ALONE


def test_another_precision_is_never_the_best_since_it_is_another_experiment() -> None:
    one = GRAPHED[0]
    found = speeds(GPU, row(MLP, one, 50), row(MLP, one._replace(precision="tf32"), 100))
    assert found.best() == one
    assert found.by_precision() == {"tf32": pytest.approx(2.0)}


def test_where_nothing_could_be_measured_for_all_models_that_is_said() -> None:
    with pytest.raises(UserError, match="no setting could be measured for all models"):
        speeds(CPU, row(MLP, PAIR, 100), row(CNN, WIDE, 100)).best()


def test_a_trial_takes_its_rounds_and_scores_at_its_share_of_the_speed() -> None:
    config = paper_config(*MLP, rounds=7, eval_every=2)
    found = speeds(CPU, row(MLP, PAIR, 1000, scored=400), row(CNN, PAIR, 1))
    expected = 7 * round_samples(config) / 500 + 3.5 * config.test_samples / 200
    assert found.seconds(config, PAIR) == pytest.approx(expected)


def test_a_model_that_was_not_measured_goes_by_operations_at_the_speed_of_the_nearest() -> None:
    found = speeds(CPU, row(MLP, PAIR, 1000), row(CNN, PAIR, 100))
    other = paper_config("cifar10", "resnet8")
    factor = flops(other) / flops(paper_config(*CNN))
    assert found.seconds(other, PAIR) == pytest.approx(
        factor * (found.seconds(paper_config(*CNN), PAIR) or 0.0), rel=1e-3
    )
    assert found.seconds(other, PAIR, scaled=False) is None


def test_what_was_not_measured_at_all_is_not_known() -> None:
    found = speeds(CPU, row(MLP, PAIR, 1000))
    assert found.seconds(paper_config(*MLP, precision="float64"), PAIR) is None
    assert found.seconds(paper_config(*MLP), Setting("eager", "float32", 1, 4)) is None


def test_the_nearest_number_of_trials_at_once_and_the_engine_count() -> None:
    one, two, four = GRAPHED
    found = speeds(GPU, row(MLP, one, 10), row(MLP, two, 30), row(MLP, four, 80), row(MLP, ALONE, 5))
    config = paper_config(*MLP, rounds=1)
    assert found.seconds(config, one) == pytest.approx(round_samples(config) / 10, rel=1e-3)
    assert found.seconds(config, four._replace(at_once=5)) == pytest.approx(round_samples(config) / 20, rel=1e-3)
    assert found.seconds(config, one._replace(threads=2)) == found.seconds(config, one)  # the GPU computes
    assert found.seconds(config, ALONE) == pytest.approx(round_samples(config) / 5, rel=1e-3)


def test_a_row_sums_up_its_trials() -> None:
    found = [Found("eager", 1000.0, 5000.0, 100), Found("eager", 3000.0, 5000.0, 200)]
    made = row_of(Case(*CNN, Setting("graphed", "float32", 2, 1)), found, 1e11)
    config = paper_config(*CNN)
    assert (made.samples, made.scored, made.memory, made.engine) == (4000.0, 10_000.0, 200, "eager")
    assert 60 / made.rounds == pytest.approx(round_samples(config) / 4000 + config.test_samples / 10_000)
    assert made.share == pytest.approx(4000 * flops(config) / 1e11)


def test_what_was_measured_is_read_back_as_it_was(tmp_path: Path) -> None:
    found = speeds(GPU, row(MLP, GRAPHED[0], 10), row(CNN, GRAPHED[1], 0.1))
    found.save(tmp_path)
    assert Speeds.load(tmp_path) == found
    assert len((tmp_path / "speed.csv").read_text().splitlines()) == 3


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"version": 99}', '{"version": 1, "rows": [{"x": 1}]}'])
def test_a_file_that_cannot_be_read_is_as_good_as_none(tmp_path: Path, content: str) -> None:
    assert Speeds.load(tmp_path) is None
    (tmp_path / FILE).write_text(content)
    assert Speeds.load(tmp_path) is None


def test_only_what_was_measured_on_this_machine_is_used_that_of_the_results_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDBENCH_CACHE", str(tmp_path / "cache"))
    here, cached = speeds(CPU, row(MLP, PAIR, 10)), speeds(CPU, row(MLP, PAIR, 20))
    for folder, found in ((tmp_path / "out", here), (cache_dir(), cached)):
        (folder / FOLDER).mkdir(parents=True, exist_ok=True)
        found.save(folder / FOLDER)
    assert known_speeds(tmp_path / "out", CPU) == here
    assert known_speeds(tmp_path / "elsewhere", CPU) == cached
    assert known_speeds(tmp_path / "out", replace(CPU, cpus=3)) is None
