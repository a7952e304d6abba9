"""Studies on a real Ray that are killed, stopped, lose a machine or run out of disk: the tables stay the same."""

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
import ray
from ray.cluster_utils import Cluster

from fedbench.render.report import make_report
from fedbench.simulation import Simulation
from fedbench.simulation.checkpoint import restore
from fedbench.specs.expand import expand
from fedbench.store.execute import execute
from fedbench.store.store import Store
from tests.commands import study as main
from tests.conftest import forgetting, heed_interrupts
from tests.helpers import PACED, STUDY, paced, results, wait_until

# A method whose first round is short; the second one in the same process does not end.
ENDLESS = PACED.replace("import time", "import itertools\nimport time").replace(
    "time.sleep(%s)", "time.sleep(next(SECONDS))"
)
ENDLESS += "\n\nSECONDS = itertools.chain([0.0], itertools.repeat(3600.0))\n"
Command = Callable[..., tuple[int, str, str]]
File = Callable[..., str]
Process = subprocess.Popen[str]
Start = Callable[..., Process]
pytestmark = pytest.mark.slow
THOROUGH = pytest.mark.thorough
ROUNDS, PACE = 25, 0.05  # seconds: trials that are long enough to be met in the middle
PACE_FILE = "seconds"
LONG_ROUND = 30.0  # seconds, more than the ten after which Tune kills a worker that it has told to end
TRIALS = 4
STOPPING = "stopping: running trials end their round and write a checkpoint; Ctrl-C again stops at once"
DIED = "the command's process has ended unexpectedly (%d); starting it again"


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts the command on a file and a results folder; what still runs at the end of the test is killed."""
    started = list[Process]()

    def begin(file: str, out: Path, *more: str, code: tuple[str, str] = ("-m", "fedbench.study")) -> Process:
        command = [sys.executable, *code, file, "--out", str(out), *more]
        pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        started.append(subprocess.Popen(command, **pipes, text=True, preexec_fn=heed_interrupts))
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def processes(process: Process, name: str = "") -> list[psutil.Process]:
    """The processes that a command has started, all of them or those of a name."""
    found = psutil.Process(process.pid).children(recursive=True)
    return [each for each in found if name in ("", each.name())]


def in_a_round(process: Process) -> list[psutil.Process]:
    """Workers that run rounds of a trial now; one that is killed between two trials is no trial's error."""
    found = []
    for each in processes(process):
        with suppress(psutil.Error):  # it has ended meanwhile
            if "FederatedRun.train" in " ".join(each.cmdline()):
                found.append(each)
    return found


def keep(file: str, pace: float) -> None:
    """Let rounds of the study in a file take so long at least, from the next one on."""
    new = Path(file).with_name(f"{PACE_FILE}.new")
    new.write_text(str(pace))
    new.replace(new.with_name(PACE_FILE))


def left(children: list[psutil.Process]) -> list[psutil.Process]:
    """The processes that have not ended; Ray's agents try for a minute to tell a Ray that was killed of its death."""
    return [each for each in psutil.wait_procs(children, timeout=120)[1] if each.is_running()]


def stored(out: Path) -> int:
    return len(list((out / "trials").glob("[0-9a-f]*"))) if (out / "trials").is_dir() else 0


def reported(out: Path) -> dict[str, int]:
    """The last round that Tune has heard of, by trial."""
    texts = [path.read_text() for path in out.glob("ray/*/*/result.json")]
    lines = [json.loads(line) for text in texts for line in text.split("\n")[:-1]]  # the last one may be half written
    return {line["hash"]: line["round"] for line in lines}


@pytest.fixture(scope="module")
def study_file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[File]:
    """Writes the study, four trials. Its method is known to this process as long as these tests run.

    pace: seconds that a round takes at least; `keep` changes it, also of trials that run.
    """
    folder = tmp_path_factory.mktemp("paced")

    def write(rounds: int = ROUNDS, pace: float = PACE) -> str:
        path = folder / "mine.yaml"
        path.write_text(paced(STUDY % (rounds, [8]), folder, f"float(open({str(folder / PACE_FILE)!r}).read())"))
        keep(str(path), pace)
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


@pytest.mark.timeout(400)
@pytest.mark.usefixtures("two_cpus")
@pytest.mark.parametrize("victim", [pytest.param("parent", marks=THOROUGH), "sigterm"])
def test_a_study_that_was_stopped_or_killed_goes_on_with_the_next_command(
    victim: str, start: Start, study_file: File, tmp_path: Path, undisturbed: tuple[str, str], command: Command
) -> None:
    """Workers are killed in test_storm.py."""
    file, out = study_file(), tmp_path / "out"
    process = start(file, out)
    wait_until(lambda: stored(out) >= 1)
    children = processes(process)
    process.send_signal(signal.SIGKILL if victim == "parent" else signal.SIGTERM)
    text, error = process.communicate(timeout=60)
    if victim == "sigterm":
        assert process.returncode == 143
        assert "\nstopping" in text, "and how, depends on whether a trial is in the middle: see the tests below"
        assert f"go on with: {sys.executable} -m fedbench.study" in error
        assert len(error.splitlines()) == 1, "no backtrace of Ray's, no warnings"
    assert not left(children), "no process outlives its command"
    kept = {path: path.stat().st_mtime_ns for path in (out / "trials").glob("[0-9a-f]*")}
    assert 1 <= len(kept) < TRIALS
    code, text, _ = command(main, file, "--out", str(out))
    assert code == 0
    assert f"{TRIALS} trials, {len(kept)} of them done" in text
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in kept.items())
    assert results(out) == undisturbed


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    "victim", ["child", pytest.param("raylet", marks=THOROUGH), pytest.param("gcs_server", marks=THOROUGH)]
)
def test_a_command_whose_process_or_whose_ray_dies_starts_again_by_itself_and_ends_with_the_same_tables(
    victim: str, start: Start, study_file: File, tmp_path: Path, undisturbed: tuple[str, str]
) -> None:
    file, out = study_file(), tmp_path / "out"
    process = start(file, out, "--max-concurrent", "1")
    wait_until(lambda: stored(out) >= 1)
    keep(file, LONG_ROUND)
    (child,), children = psutil.Process(process.pid).children(), processes(process)
    first = {path: path.stat().st_mtime_ns for path in (out / "trials").glob("[0-9a-f]*")}
    struck = [child] if victim == "child" else processes(process, victim)
    struck[0].kill()
    psutil.wait_procs([child], timeout=120)
    keep(file, PACE)
    text, error = process.communicate(timeout=350)
    assert process.returncode == 0, error
    assert error.count("starting it again") == 1
    assert DIED % (137 if victim == "child" else 1) in error.splitlines()
    assert "Traceback" not in text + error
    assert results(out) == undisturbed
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in first.items()), "nothing is run twice"
    assert not left(children), "no process outlives its command"
    assert not list((out / "leases").iterdir())


@pytest.mark.timeout(400)
@THOROUGH
def test_a_command_whose_control_store_dies_while_ray_starts_starts_again_by_itself(
    start: Start, study_file: File, tmp_path: Path, undisturbed: tuple[str, str]
) -> None:
    file, out = study_file(), tmp_path / "out"
    process = start(file, out)
    wait_until(lambda: bool(processes(process, "gcs_server")))
    processes(process, "gcs_server")[0].kill()
    text, error = process.communicate(timeout=350)
    assert process.returncode == 0, error
    assert DIED % 1 in error.splitlines()
    assert "Traceback" not in text + error
    assert results(out) == undisturbed


NOTEBOOK = """
import fedbench, sys
try:
    fedbench.run(sys.argv[1], out=sys.argv[3], max_concurrent=1)
except fedbench.UserError as error:
    print("UserError:", error, flush=True)
    fedbench.run(sys.argv[1], out=sys.argv[3])
"""


@pytest.mark.timeout(400)
@THOROUGH
@pytest.mark.parametrize("victim", ["raylet", "gcs_server"])
def test_from_python_a_ray_that_dies_is_one_exception_that_says_how_to_go_on_and_the_next_call_does(
    victim: str, start: Start, study_file: File, tmp_path: Path, undisturbed: tuple[str, str]
) -> None:
    file, out = study_file(), tmp_path / "out"
    process = start(file, out, code=("-c", NOTEBOOK))
    wait_until(lambda: stored(out) >= 1)
    keep(file, LONG_ROUND)
    children = processes(process)
    processes(process, victim)[0].kill()
    said = list[str]()
    assert process.stdout
    for line in process.stdout:
        said.append(line)
        if line.startswith("UserError"):
            break
    keep(file, PACE)
    text, error = process.communicate(timeout=250)
    assert process.returncode == 0, error
    assert said[-1].startswith("UserError: Ray has died; what was finished is stored; "), said
    assert "call fedbench.run again" in said[-1]
    assert "UserError" not in text
    assert "Traceback" not in text + error
    assert results(out) == undisturbed
    assert not left(children), "no process outlives its Ray"


def test_two_commands_on_one_folder_share_the_trials_and_run_none_twice(
    start: Start, study_file: File, tmp_path: Path, undisturbed: tuple[str, str]
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


@pytest.mark.timeout(400)
@pytest.mark.parametrize("pace", [PACE, pytest.param(LONG_ROUND, marks=THOROUGH)])
def test_ctrl_c_is_acknowledged_at_once_and_running_trials_keep_the_round_that_they_are_in(
    pace: float, start: Start, study_file: File, tmp_path: Path
) -> None:
    file, out = study_file(30_000, pace), tmp_path / "out"
    process = start(file, out)
    wait_until(lambda: len(reported(out)) == 2 and min(reported(out).values()) >= 1, 240)
    before = reported(out)
    process.send_signal(signal.SIGINT)
    assert process.stdout and any(line.strip() == STOPPING for line in process.stdout)
    text, error = process.communicate(timeout=120)
    assert process.returncode == 130
    assert f"4 trials are left; go on with: {sys.executable} -m fedbench.study" in error
    assert "Traceback" not in text + error
    checkpoints = sorted(out.glob("checkpoints/*/round-*.ckpt"))
    assert len({path.parent for path in checkpoints}) == 2
    study = expand(file, "quick", changes={}, only={}, seeds=None)
    for folder in {path.parent for path in checkpoints}:
        simulation = Simulation(study.trials[folder.name])
        assert restore(simulation, folder) == []
        assert simulation.state.round > before[folder.name]


@pytest.mark.timeout(400)
def test_a_second_ctrl_c_stops_in_the_middle_of_a_round(start: Start, study_file: File, tmp_path: Path) -> None:
    file, out = study_file(30_000), tmp_path / "out"
    Path(file).with_name("paced.py").write_text(ENDLESS)
    process = start(file, out)
    wait_until(lambda: len(reported(out)) == 2)
    children = processes(process)
    process.send_signal(signal.SIGINT)
    assert process.stdout and any(line.strip() == STOPPING for line in process.stdout)
    while not select.select([process.stdout], [], [], 0.1)[0]:  # those of the first second count as the same one
        process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "stopping\n"
    _, error = process.communicate(timeout=100)
    assert process.returncode == 130
    assert f"4 trials are left; go on with: {sys.executable} -m fedbench.study" in error
    assert "Traceback" not in error
    assert not left(children), "no process outlives its command"
    assert not list((out / "leases").iterdir())


@THOROUGH
@pytest.mark.usefixtures("two_cpus")
def test_a_full_disk_stops_the_study_and_loses_nothing(
    start: Start, study_file: File, tmp_path: Path, command: Command
) -> None:
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
        assert "not stored: [Errno 28] No space left on device" in text
        assert 1 <= kept < TRIALS
        assert "Traceback" not in text + error
        assert f"go on with: {sys.executable} -m fedbench.study" in error
        subprocess.run(["mount", "-o", "remount,size=64m", str(out / "trials")], check=True)
        code, text, _ = command(main, file, "--out", str(out))
        assert code == 0
        assert f"{TRIALS} trials, {kept} of them done" in text
    finally:
        subprocess.run(["umount", str(out / "trials")], check=True)


def test_a_file_of_tune_that_a_full_disk_has_cut_off_does_not_end_the_study(
    start: Start, study_file: File, tmp_path: Path, undisturbed: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file, out = study_file(pace=2.0), tmp_path / "out"  # Tune copies its files into OUT when all trials have ended
    with tempfile.TemporaryDirectory(prefix="cut-", ignore_cleanup_errors=True) as folder:  # short: it holds sockets
        monkeypatch.setenv("TMPDIR", folder)
        process = start(file, out)
        wait_until(lambda: bool(in_a_round(process)))
        in_a_round(process)[0].kill()
        wait_until(lambda: bool(list(Path(folder).rglob("driver_artifacts/*/error.pkl"))))
        for written in Path(folder).rglob("driver_artifacts/*/error.pkl"):
            os.truncate(written, 0)
        keep(file, PACE)
        text, error = process.communicate(timeout=250)
    assert process.returncode == 0, text + error
    assert "Traceback" not in text + error
    assert list(out.glob("ray/*/*/error.pkl"))
    assert results(out) == undisturbed


@THOROUGH
def test_a_lost_node_does_not_change_the_tables(
    start: Start, study_file: File, tmp_path: Path, undisturbed: tuple[str, str]
) -> None:
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


@pytest.mark.timeout(400)
def test_ctrl_c_while_no_trial_has_a_round_to_lose_stops_at_once_and_says_so(
    start: Start, study_file: File, tmp_path: Path
) -> None:
    file, out = study_file(30_000, 3600.0), tmp_path / "out"
    process = start(file, out, "--no-try")  # a round takes an hour
    wait_until(lambda: len(list(out.glob("leases/*"))) == 2)
    process.send_signal(signal.SIGINT)
    text, error = process.communicate(timeout=100)
    assert process.returncode == 130
    assert "stopping" in text.splitlines()
    assert "Traceback" not in error
    assert not list((out / "leases").iterdir())
