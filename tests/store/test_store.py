from collections.abc import Callable
from pathlib import Path

import pytest

from fedbench import TrialConfig, UserError
from fedbench.cost.estimate import estimate
from fedbench.render.report import make_report
from fedbench.simulation import Record, Simulation
from fedbench.specs.expand import expand
from fedbench.store import entry as entry_module
from fedbench.store import execute as module
from fedbench.store.execute import execute
from fedbench.store.store import Store
from tests.analysis.helpers import fill
from tests.helpers import Hear, forge

Make = Callable[..., TrialConfig]
read_file = entry_module.read_file


def test_a_finished_trial_is_stored_and_never_run_again(tiny: Make, tmp_path: Path) -> None:
    store, rounds = Store(tmp_path), []
    first = execute(tiny(), store, None, [Hear(lambda _, record: rounds.append(record.round))])
    assert (first.status, rounds) == ("done", [1, 2, 3])
    again = execute(tiny(), store, None, [Hear(lambda _, record: rounds.append(record.round))])
    assert again == first
    assert rounds == [1, 2, 3]
    assert len(first.table("rounds")) == 3
    assert [path.name for path in store.trials.iterdir()] == [tiny().hash]


@pytest.mark.parametrize("damage", ["summary.json", "rounds.csv", "trial.json"])
def test_a_damaged_entry_is_moved_aside_reported_and_run_again(tiny: Make, tmp_path: Path, damage: str) -> None:
    store = Store(tmp_path)
    before = execute(tiny(), store, None)
    (before.path / damage).write_text("{")
    fresh = Store(tmp_path)
    assert fresh.get(tiny().hash) is None
    (complaint,) = fresh.complaints
    assert tiny().hash[:12] in complaint
    assert before.path.is_dir(), "reading never writes"
    assert not (tmp_path / "damaged").exists()
    after = execute(tiny(), fresh, None)
    assert len(list((tmp_path / "damaged").iterdir())) == 1
    assert after.summary["final_accuracy"] == before.summary["final_accuracy"]


def test_a_mark_that_says_something_else_than_the_summary_is_damage_too(tiny: Make, tmp_path: Path) -> None:
    marker = execute(tiny(), Store(tmp_path), None).path / "trial.json"
    sound = marker.read_text()
    changes = (('"final_accuracy": 0.', '"final_accuracy": 1.'), ('"done"', '"diverged"'))
    for wrong in (sound.replace(*change, 1) for change in changes):
        assert wrong != sound
        marker.write_text(wrong)
        fresh = Store(tmp_path)
        assert fresh.get(tiny().hash) is None
        assert "trial.json does not say what summary.json does" in fresh.complaints[0]


@pytest.mark.parametrize("damage", ["environment.json", "rounds.csv"])
def test_an_entry_that_is_damaged_after_it_was_looked_up_is_left_out_of_reports_and_said(
    tmp_path: Path, damage: str
) -> None:
    study, store = expand("smoke", "quick", changes={}, only={}, seeds=None), Store(tmp_path)
    fill(store, study, lambda labels, seed: 0.5)
    struck, *others = study.trials
    assert store.finished(study.trials) == set(study.trials)
    content = (store.where(struck) / damage).read_text()
    for wrong in (content.replace("2", "3"), "{", None):
        if wrong is None:
            (store.where(struck) / damage).unlink()
        else:
            (store.where(struck) / damage).write_text(wrong)
        report = make_report(study, store)
        assert set(report.trials) == set(others)
        (complaint,) = store.complaints
        assert complaint.startswith(f"damaged entry {struck[:12]} ({damage} ")
        (store.where(struck) / damage).write_text(content)
        store = Store(tmp_path)
        assert store.finished(study.trials) == set(study.trials)


def test_a_missing_file_is_damage_too(tiny: Make, tmp_path: Path) -> None:
    store = Store(tmp_path)
    (execute(tiny(), store, None).path / "clients.csv").unlink()
    fresh = Store(tmp_path)
    assert fresh.get(tiny().hash) is None
    assert "clients.csv is missing" in fresh.complaints[0]


def test_a_crash_is_an_entry_with_its_reason_and_is_tried_again(
    tiny: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path)

    def fail(self: Simulation) -> Record:
        raise ZeroDivisionError("out of luck")

    with monkeypatch.context() as patched:
        patched.setattr(Simulation, "step", fail)
        failed = execute(tiny(), store, None)
    assert (failed.status, failed.reason) == ("failed", "ZeroDivisionError: out of luck")
    assert "out of luck" in (failed.path / "traceback.txt").read_text()
    assert execute(tiny(), store, None).status == "done"


def test_a_diverged_trial_is_a_result(tiny: Make, tmp_path: Path) -> None:
    stored = execute(tiny(clients__lr=1e30), Store(tmp_path), None)
    assert stored.status == "diverged"
    assert stored.reason is not None
    assert "non-finite" in stored.reason


def test_a_stopped_trial_goes_on_from_its_checkpoint(
    tiny: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CHECKPOINT_SECONDS", 0.0)
    store, config, seen = Store(tmp_path), tiny(rounds=5), []

    def stop(simulation: Simulation, record: Record) -> None:
        if record.round == 4:
            raise OSError("the machine went away")

    with pytest.raises(OSError, match="went away"):
        execute(config, store, None, [Hear(stop)])
    assert store.checkpoints(config.hash).is_dir()
    resumed = execute(config, store, None, [Hear(lambda _, record: seen.append(record.round))])
    assert seen == [4, 5]
    whole = execute(config, Store(tmp_path / "other"), None)
    columns = [c for c in whole.table("rounds").columns if not c.startswith("seconds")]
    assert resumed.table("rounds")[columns].equals(whole.table("rounds")[columns])
    assert not store.checkpoints(config.hash).exists()


def test_two_drivers_may_store_the_same_trial(tiny: Make, tmp_path: Path) -> None:
    one, other = Store(tmp_path), Store(tmp_path)
    execute(tiny(), one, None)
    with other.entry(tiny().hash) as folder:
        (folder / "x").write_text("")
        other.commit(folder, tiny().hash, "done", None, {})
    stored = one.get(tiny().hash)
    assert stored is not None
    assert "final_accuracy" in stored.summary


def test_an_out_folder_that_cannot_be_written_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        Store(tmp_path / "file" / "below").prepare()


def test_a_cost_is_estimated_beside_trials_of_methods_that_are_not_here(tiny: Make, tmp_path: Path) -> None:
    store, study = Store(tmp_path), expand("smoke", "quick", changes={}, only={}, seeds=[8])
    fill(store, study, lambda labels, seed: 0.5)
    for trial in store.all():
        (trial.path / "config.yaml").touch()
        forge(trial.path, "config.yaml", lambda _: "method: {name: somebodys_own}\n")
    cost = estimate([tiny(rounds=2)], store)
    assert cost.seconds > 0
    assert "1 probed" in cost.source


def test_files_are_verified_once_a_command(tiny: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    execute(tiny(), Store(tmp_path), None)
    store, read = Store(tmp_path), list[str]()

    def noted(path: Path) -> bytes:
        read.append(path.name)
        return read_file(path)

    monkeypatch.setattr(entry_module, "read_file", noted)
    first = store.get(tiny().hash)
    assert first is not None
    assert sorted(read) == sorted(["trial.json", *first.sums])
    count = len(read)
    assert count > 5
    assert store.get(tiny().hash) is first
    assert store.status(tiny().hash) == "done"
    assert len(read) == count


def test_a_table_that_is_changed_by_its_reader_is_read_anew(tiny: Make, tmp_path: Path) -> None:
    stored = execute(tiny(), Store(tmp_path), None)
    stored.table("rounds").insert(0, "mine", 1)
    assert "mine" not in stored.table("rounds")


def test_an_entry_is_out_of_sight_until_the_new_one_exists(tiny: Make, tmp_path: Path) -> None:
    store = Store(tmp_path)
    before = execute(tiny(), store, None)
    store.retire([tiny().hash])
    assert store.get(tiny().hash) is None
    (old,) = store.trials.iterdir()
    assert (old / "summary.json").is_file(), "nothing is lost before there is something new"
    after = execute(tiny(), store, None)
    assert [path.name for path in store.trials.iterdir()] == [tiny().hash]
    assert after.summary["final_accuracy"] == before.summary["final_accuracy"]


def test_a_failed_entry_that_another_driver_replaces_meanwhile_is_no_error(
    tiny: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = Store(tmp_path), Store(tmp_path)
    for store in (one, other):
        with store.entry(tiny().hash) as folder:
            store.commit(folder, tiny().hash, "failed", "why", {})
    damaged = Store(tmp_path)
    (damaged.trials / tiny().hash / "trial.json").write_text("{")
    assert damaged.get(tiny().hash) is None
    execute(tiny(), other, None)  # the other driver mends it, and runs it
    damaged.mend()
    assert Store(tmp_path).get(tiny().hash) is not None, "a sound entry stays"


def test_a_failed_entry_that_a_worker_has_replaced_is_seen_by_who_looked_before(tiny: Make, tmp_path: Path) -> None:
    driver, worker = Store(tmp_path), Store(tmp_path)
    with worker.entry(tiny().hash) as folder:
        worker.commit(folder, tiny().hash, "failed", "why", {})
    before = driver.get(tiny().hash)
    assert before is not None and before.status == "failed"
    execute(tiny(), worker, None)
    after = driver.get(tiny().hash)
    assert after is not None and after.status == "done"
