"""What is published: that it is sound, small and of current studies, and that running a trial again is checked."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

import fedbench
from fedbench.analysis.agreement import agreement, tolerance
from fedbench.base.packs import SUFFIX, packed, unpacked
from fedbench.jobs.published import LARGEST, LARGEST_SUM
from fedbench.specs.expand import ScaledStudy, expand, expand_study, load_study, study_files
from fedbench.store.execute import execute
from fedbench.store.folder import stored_config
from fedbench.store.store import Store
from tests.commands import publish, report, verify
from tests.helpers import forged, study_file

Command = Callable[..., tuple[int, str, str]]
PUBLISHED = Path(__file__).parent.parent / "published"


def test_every_published_trial_is_one_of_a_current_study() -> None:
    hashes = set[str]()
    for name in study_files():
        stem, study = load_study(name)
        for scale in study.scales:
            hashes |= expand_study(stem, study, scale, changes={}, only={}, seeds=None).trials.keys()
    packs = {path.name for path in (PUBLISHED / "trials").iterdir()}
    assert packs, "nothing is published"
    stale = packs - {f"{hash_}{SUFFIX}" for hash_ in hashes}
    assert not stale, f"of no current study, so remove: {', '.join(sorted(stale))}"


def test_every_published_trial_is_sound_done_and_of_its_own_config() -> None:
    store = Store(PUBLISHED)
    trials = list(store.all())
    assert len(trials) == len(list(store.trials.iterdir()))
    assert not store.complaints
    for trial in trials:
        assert trial.status in ("done", "diverged")
        assert stored_config(trial.path).hash == trial.hash


def test_what_is_published_is_small() -> None:
    sizes = {path.name: path.stat().st_size for path in PUBLISHED.rglob("*") if path.is_file()}
    assert {name: size for name, size in sizes.items() if size > LARGEST} == {}
    assert sum(sizes.values()) <= LARGEST_SUM


def test_the_numbers_of_the_docs_are_those_of_the_published_trials() -> None:
    cells = fedbench.load("methods", "paper", PUBLISHED, table="cells")
    cells = cells[(cells.table == "accuracy") & (cells.n > 0)]
    page = (PUBLISHED.parent / "docs/results.md").read_text()
    section = page.partition("## All methods, scale paper")[2]
    for cell in cells.itertuples():
        row = next(line for line in section.splitlines() if line.startswith(f"| {cell.method} "))
        shown = re.findall(r"\d+\.\d+", row)  # with as many decimals as the spread asks for
        assert any(number == f"{cell.mean:.{len(number.partition('.')[2])}f}" for number in shown), (cell.method, row)
    distances = (cells.paper_difference.dropna().abs() <= 0.5).sum()
    assert f"of {cells.paper.notna().sum()} accuracies {distances} within 0.5" in section


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> tuple[ScaledStudy, str, Path]:
    """A study of digits, its file, and its results: all four cells of one seed, one cell of the other."""
    folder = tmp_path_factory.mktemp("study")
    file = study_file(folder)
    expanded, store = expand(file, "quick", changes={}, only={}, seeds=None), Store(folder / "results")
    for number, cell in enumerate(expanded.cells):
        for config in list(cell.trials.values())[: 2 if number == 0 else 1]:
            execute(config, store, None)
    return expanded, file, folder / "results"


@pytest.fixture
def packs(study: tuple[ScaledStudy, str, Path], command: Command, tmp_path: Path) -> Path:
    """The same results, published."""
    _, file, out = study
    code, said, _ = command(publish, file, "--out", str(out), "--to", str(tmp_path / "packs"))
    assert code == 0
    assert "5 packed, 0 there already, 3 of 8 not run" in said
    return tmp_path / "packs"


def test_packs_give_what_the_folders_give(
    study: tuple[ScaledStudy, str, Path], packs: Path, command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    expanded, file, out = study
    one, other = Store(out), Store(packs)
    for hash_ in one.finished(expanded.trials):
        before, after = one.get(hash_), other.get(hash_)
        assert before and after
        assert after.files() == before.files() == {p.name: p.read_bytes() for p in before.path.iterdir()}
        pd.testing.assert_frame_equal(before.table("clients"), after.table("clients"))
        assert after.table("nothing").empty
        assert stored_config(after.path) == stored_config(before.path)
        assert after.environment() == before.environment()
        assert other.status(hash_) == "done"
    monkeypatch.chdir(tmp_path)
    before_them = sorted(packs.rglob("*"))
    for folder in (out, packs):
        code, said, _ = command(report, file, "--out", str(folder))
        assert code == 0
        assert "3 of 8 trials have not been run" in said
    assert f"{packs} is only read: tables and plots are in {Path('results', 'packs')}" in said
    assert sorted(packs.rglob("*")) == before_them, "a report leaves packs alone"
    there = tmp_path / "results" / "packs" / "studies" / "mine" / "quick"
    for path in there.iterdir():
        path = out / "studies" / "mine" / "quick" / path.name
        if path.name != "report.html":  # it links the folders of trials, and packs have none
            assert (there / path.name).read_bytes() == path.read_bytes()


def test_publishing_again_changes_no_byte(study: tuple[ScaledStudy, str, Path], packs: Path, command: Command) -> None:
    _, file, out = study
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in (packs / "trials").iterdir()}
    _, said, _ = command(publish, file, "--out", str(out), "--to", str(packs))
    assert "0 packed, 5 there already" in said
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in (packs / "trials").iterdir()} == before


def test_a_damaged_pack_is_reported_moved_aside_and_run_again(
    study: tuple[ScaledStudy, str, Path], packs: Path
) -> None:
    config = next(iter(study[0].trials.values()))
    doctor(packs, config.hash, "rounds.csv", lambda text: text.replace("1", "2"), seal=False)
    store = Store(packs)
    assert store.get(config.hash) is None
    assert "rounds.csv does not have its checksum" in store.complaints[0]
    assert execute(config, store, None).path == store.trials / config.hash
    assert [path.name.split("-")[0] for path in (packs / "damaged").iterdir()] == [config.hash]


def test_a_pack_gives_way_to_a_fresh_run(study: tuple[ScaledStudy, str, Path], packs: Path) -> None:
    config, store = next(iter(study[0].trials.values())), Store(packs)
    store.retire([config.hash])
    assert store.get(config.hash) is None
    execute(config, store, None)
    assert sorted(path.name for path in store.trials.glob(f"*{config.hash}*")) == [config.hash]


def test_a_read_only_folder_is_left_alone(
    study: tuple[ScaledStudy, str, Path], command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _, file, out = study
    kept = tmp_path / "kept"
    shutil.copytree(out / "trials", kept / "trials")
    kept.chmod(0o555)
    monkeypatch.chdir(tmp_path)
    code, said, _ = command(report, file, "--out", "kept")
    assert code == 0
    assert "kept is only read: tables and plots are in results/kept" in said
    assert [path.name for path in kept.iterdir()] == ["trials"]


def doctor(packs: Path, hash_: str, name: str, change: Callable[[str], str], seal: bool = True) -> None:
    """Change a file in a pack; sealed, nobody sees that."""
    pack = packs / "trials" / f"{hash_}{SUFFIX}"
    files = unpacked(pack.read_bytes())
    changed = {**files, name: change(files[name].decode()).encode()}
    pack.write_bytes(packed(forged(changed) if seal else changed))


def lower(points: float) -> Callable[[str], str]:
    """Make a trial's mark claim a score that is so many points lower."""

    def change(text: str) -> str:
        mark = json.loads(text)
        mark["summary"]["final_accuracy"] -= points / 100
        return json.dumps(mark)

    return change


def test_trials_run_again_are_equal_and_nothing_is_left(
    packs: Path, command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    before = sorted(packs.rglob("*"))
    code, said, _ = command(verify, str(packs), "--trials", "2", "--seed", "1")
    assert code == 0
    assert "2 trials run again: 2 equal, 0 close, 0 differ" in said
    assert "round 3/3" in said
    assert sorted(packs.rglob("*")) == before
    assert not list((tmp_path / "scratch").iterdir())


def test_the_seed_picks_the_trials(packs: Path, command: Command) -> None:
    def picked(seed: int) -> str:
        code, said, _ = command(verify, str(packs), "--trials", "2", "--seed", str(seed), "--dry-run")
        assert code == 0
        assert "2 of 5 trials, 0:00:0" in said
        assert "run again" not in said
        return said

    assert picked(1) == picked(1)
    assert len({picked(seed) for seed in range(8)}) > 2
    assert "5 of 5 trials" in command(verify, str(packs), "--trials", "99", "--dry-run")[1]


def test_a_doctored_score_is_found_out(study: tuple[ScaledStudy, str, Path], packs: Path, command: Command) -> None:
    for hash_ in Store(packs).finished(study[0].trials):
        doctor(packs, hash_, "trial.json", lower(60))
    code, said, _ = command(verify, str(packs), "--trials", "1", "--seed", "1")
    assert code == 1
    assert "differs: " in said
    assert "+60.00 points" in said
    assert "0 equal, 0 close, 1 differ" in said


def test_rounding_may_move_scores_by_half_a_point_or_three_spreads_of_the_seeds(
    study: tuple[ScaledStudy, str, Path], packs: Path
) -> None:
    (one, other), store = study[0].cells[0].trials.values(), Store(study[2])
    ours, twin = store.get(one.hash), store.get(other.hash)
    assert ours and twin
    assert tolerance([ours]) == 0.5
    scores = [100 * trial.summary["final_accuracy"] for trial in (ours, twin)]
    allowed = tolerance([ours, twin])
    assert allowed == pytest.approx(max(0.5, 3 * abs(scores[0] - scores[1]) / 2**0.5))
    verdicts = []
    for points in (0.0, 0.9 * allowed, 1.1 * allowed):
        doctor(packs, one.hash, "trial.json", lower(points))
        published = Store(packs).get(one.hash)
        assert published
        verdicts.append(agreement(ours, published, allowed).verdict)
        doctor(packs, one.hash, "trial.json", lower(-points))
    assert verdicts == ["equal", "close", "differs"]


def test_trials_of_ones_own_are_held_against_the_published_ones_without_running(
    study: tuple[ScaledStudy, str, Path], packs: Path, command: Command
) -> None:
    expanded, file, out = study
    doctor(packs, next(iter(expanded.trials)), "trial.json", lower(60))
    code, said, _ = command(report, file, "--out", str(out), "--compare", str(packs))
    assert code == 0
    assert "5 trials in both folders: 4 equal, 0 close, 1 differ" in said
    table = pd.read_csv(out / "studies" / "mine" / "quick" / "compare.csv")
    assert list(table.verdict) == ["differs", *["equal"] * 4]
    assert table.difference[0] == pytest.approx(60)
    assert list(table.seed) == [8, 9, 8, 8, 8]
    assert list(table.tolerance) == [0.5] * 5, "of two seeds one is left, which has no spread"
    again, said, _ = command(report, file, "--out", str(out), "--compare", str(out / "studies"))
    assert again == 2
    assert command(report, file, "--out", str(out))[0] == 0
    assert not (out / "studies" / "mine" / "quick" / "compare.csv").exists(), "it was of an earlier report"


def test_a_trial_that_is_too_large_is_not_published(
    study: tuple[ScaledStudy, str, Path], command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("fedbench.jobs.published.LARGEST", 1000)
    code, said, _ = command(publish, study[1], "--out", str(study[2]), "--to", str(tmp_path / "packs"))
    assert code == 1
    assert "not published, since its pack has" in said
    assert not (tmp_path / "packs").exists()
