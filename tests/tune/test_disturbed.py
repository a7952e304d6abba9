"""Studies on a real Ray that are killed, stopped, lose a machine or run out of disk: the tables stay the same."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
import ray
from ray.cluster_utils import Cluster
from rich.console import Console

from fedbench.reports.report import make_report
from fedbench.simulation import Simulation
from fedbench.simulation.checkpoint import restore
from fedbench.specs.expand import expand
from fedbench.store.execute import execute
from fedbench.store.store import Store
from fedbench.study import main
from fedbench.terminal.progress import StudyProgress
from fedbench.tune.runner import asking_to_stop
from tests.conftest import forgetting, heed_interrupts
from tests.helpers import STUDY, paced, results, wait_until

Command = Callable[..., tuple[int, str, str]]
File = Callable[..., str]
pytestmark = pytest.mark.slow
THOROUGH = pytest.mark.thorough
ROUNDS, PACE = 25, 0.05  # seconds: trials that are long enough to be met in the middle
TRIALS = 4


def start(file: str, out: Path, *more: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "fedbench.study", file, "--out", str(out), *more]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=heed_interrupts
    )


def stored(out: Path) -> int:
    return len(list((out / "trials").glob("[0-9a-f]*"))) if (out / "trials").is_dir() else 0


def reported(out: Path) -> dict[str, int]:
    """The last round that Tune has heard of, by trial."""
    texts = [path.read_text() for path in out.glob("ray/*/*/result.json")]
    lines = [json.loads(line) for text in texts for line in text.split("\n")[:-1]]  # the last one may be half written
    return {line["hash"]: line["round"] for line in lines}


@pytest.fixture(scope="module")
def study_file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[File]:
    """Writes the study, four trials. Its method is known to this process as long as these tests run."""
    folder = tmp_path_factory.mktemp("paced")

    def write(rounds: int = ROUNDS) -> str:
        path = folder / "mine.yaml"
        path.write_text(paced(STUDY % (rounds, [8]), folder, PACE))
        return str(path)

    with forgetting():
        yield write


@pytest.fixture(scope="module")
def undisturbed(study_file: File, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """The results of a study that nobody disturbed: one trial after the other, in this process, without Ray."""
    folder = tmp_path_factory.mktemp("whole")
    store = Store(folder / "out")
    store.prepare()
    study = expand(study_file(), "quick", changes={}, only={}, seeds=None)
    for config in study.trials.values():
        assert execute(config, store, None).status == "done"
    make_report(study, store)
    return results(folder / "out")


@pytest.mark.usefixtures("two_cpus")
@pytest.mark.parametrize(
    "victim", [pytest.param("driver", marks=THOROUGH), "sigterm", pytest.param("raylet", marks=THOROUGH)]
)
def test_a_disturbed_study_ends_with_the_same_tables(
    victim: str, study_file: File, tmp_path: Path, undisturbed: tuple[str, str], command: Command
) -> None:
    """Workers are killed in test_storm.py."""
    file, out = study_file(), tmp_path / "out"
    process = start(file, out)
    wait_until(lambda: stored(out) >= 1)
    children = psutil.Process(process.pid).children(recursive=True)
    if victim == "raylet":
        next(child for child in children if child.name() == victim).kill()
        text, error = process.communicate(timeout=200)
        assert process.returncode == 0
        assert "Ray's node manager has died; starting it again" in text
        assert "Traceback" not in text + error
    else:
        process.send_signal(signal.SIGKILL if victim == "driver" else signal.SIGTERM)
        text, error = process.communicate(timeout=60)
        if victim == "sigterm":
            assert process.returncode == 143
            assert "\nstopping" in text, "and how, depends on whether a trial is in the middle: see the next tests"
            assert "go on with: python -m fedbench.study" in error
            assert len(error.splitlines()) == 1, "no backtrace of Ray's, no warnings"
        kept = {path: path.stat().st_mtime_ns for path in (out / "trials").glob("[0-9a-f]*")}
        assert 1 <= len(kept) < TRIALS
        code, text, _ = command(main, file, "--out", str(out))
        assert code == 0
        assert f"{TRIALS} trials, {len(kept)} of them done" in text
        assert all(path.stat().st_mtime_ns == stamp for path, stamp in kept.items())
    assert results(out) == undisturbed
    if victim != "driver":  # what Ray starts notices that by and by
        psutil.wait_procs(children, timeout=30)
        assert not [child for child in children if child.is_running()], "no process outlives its command"


NOTEBOOK = "import fedbench, sys; fedbench.run(sys.argv[1], out=sys.argv[3])"


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "code",
    [
        pytest.param(("-m", "fedbench.study"), id="command"),
        pytest.param(("-c", NOTEBOOK), id="notebook", marks=THOROUGH),
    ],
)
def test_a_control_store_that_dies_while_ray_starts_is_one_line_and_the_study_goes_on(
    code: tuple[str, str], study_file: File, tmp_path: Path, undisturbed: tuple[str, str]
) -> None:
    file, out = study_file(), tmp_path / "out"
    command = [sys.executable, *code, file, "--out", str(out)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    met = list[psutil.Process]()

    def meet() -> bool:
        children = psutil.Process(process.pid).children(recursive=True)
        met.extend(child for child in children if child.name() == "gcs_server")
        return bool(met)

    wait_until(meet)
    met[0].kill()
    text, error = process.communicate(timeout=500)
    assert process.returncode == 0, error
    assert "starting it again" in text
    assert "Traceback" not in text + error
    assert results(out) == undisturbed


def test_two_commands_on_one_folder_share_the_trials_and_run_none_twice(
    study_file: File, tmp_path: Path, undisturbed: tuple[str, str]
) -> None:
    file, out = study_file(), tmp_path / "out"
    commands = [start(file, out, "--max-concurrent", "1") for _ in range(2)]
    texts = [command.communicate(timeout=250)[0] for command in commands]
    assert [command.returncode for command in commands] == [0, 0]
    ended = [line for text in texts for line in text.splitlines() if "last round" in line]
    here = [line.partition("; ")[2] for line in ended if not line.endswith(("(run elsewhere)", "(found in the store)"))]
    assert len(here) == len(set(here)) == TRIALS, texts
    assert results(out) == undisturbed
    assert not list((out / "leases").iterdir())


def test_ctrl_c_is_acknowledged_at_once_and_running_trials_keep_their_rounds(study_file: File, tmp_path: Path) -> None:
    file, out = study_file(30_000), tmp_path / "out"
    process = start(file, out)
    try:
        wait_until(lambda: len(reported(out)) == 2 and min(reported(out).values()) > 1)
        before = reported(out)
        process.send_signal(signal.SIGINT)
        text, error = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "stopping: running trials end their round and write a checkpoint" in text
    assert "4 trials are left; go on with: python -m fedbench.study" in error
    checkpoints = sorted(out.glob("checkpoints/*/round-*.ckpt"))
    assert len({path.parent for path in checkpoints}) == 2
    assert not list(out.glob("checkpoints/.new-stop*"))
    study = expand(file, "quick", changes={}, only={}, seeds=None)
    for folder in {path.parent for path in checkpoints}:
        simulation = Simulation(study.trials[folder.name])
        assert restore(simulation, folder) == []
        assert simulation.state.round >= before[folder.name]


@THOROUGH
@pytest.mark.usefixtures("two_cpus")
def test_a_full_disk_stops_the_study_and_loses_nothing(study_file: File, tmp_path: Path, command: Command) -> None:
    file, out = study_file(2), tmp_path / "out"
    (out / "trials").mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(out / "trials")]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("needs the right to mount a small file system")
    try:
        process = start(file, out, "--max-concurrent", "1")
        text, error = process.communicate(timeout=250)
        kept = stored(out)
        assert process.returncode == 1
        assert "No space left on device" in text
        assert 1 <= kept < TRIALS
        assert "Traceback" not in text + error
        assert "go on with: python -m fedbench.study" in error
        subprocess.run(["mount", "-o", "remount,size=64m", str(out / "trials")], check=True)
        code, text, _ = command(main, file, "--out", str(out))
        assert code == 0
        assert f"{TRIALS} trials, {kept} of them done" in text
    finally:
        subprocess.run(["umount", str(out / "trials")], check=True)


@THOROUGH
def test_a_lost_node_does_not_change_the_tables(study_file: File, tmp_path: Path, undisturbed: tuple[str, str]) -> None:
    ray.shutdown()  # the last test here: it has a cluster of its own
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    second = cluster.add_node(num_cpus=1)
    out = tmp_path / "out"
    try:
        process = start(study_file(), out, "--address", cluster.address)
        wait_until(lambda: stored(out) >= 1)
        cluster.remove_node(second, allow_graceful=False)
        _, error = process.communicate(timeout=250)
        assert process.returncode == 0, error
    finally:
        cluster.shutdown()
    assert results(out) == undisturbed


def test_ctrl_c_while_no_trial_has_a_round_to_lose_stops_at_once_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    progress = StudyProgress({}, {}, Console(force_terminal=False))
    with pytest.raises(KeyboardInterrupt), asking_to_stop(tmp_path / "stop", progress):
        signal.raise_signal(signal.SIGINT)
    assert capsys.readouterr().out == "stopping\n"
