"""Entries and packs of strangers: whatever stands in them, one line names the entry, and nothing else is read."""

import json
import lzma
import os
import resource
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from shutil import rmtree
from typing import Any

import psutil
import pytest

import fedbench
from fedbench import UserError
from fedbench.base.packs import LARGEST, SUFFIX, packed, unpacked
from fedbench.specs.expand import ScaledStudy, expand
from fedbench.store.mark import LARGEST as LARGEST_MARK
from fedbench.store.store import Store
from tests.analysis.helpers import fill
from tests.commands import publish, report, verify
from tests.helpers import study_file

Command = Callable[..., tuple[int, str, str]]
Change = Callable[[dict[str, Any]], None]
HASH = "ab" * 32
SUM = sha256(b"").hexdigest()
SECRET = "a secret of the reader"


@pytest.fixture(autouse=True)
def little_memory() -> Iterator[None]:
    """Who reads without end gets a MemoryError, and not all that the machine has."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (psutil.Process().memory_info().vms + 2**32, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.fixture
def study(tmp_path: Path) -> tuple[ScaledStudy, str, Store]:
    """A study of four trials, its file, and a store with all of them."""
    file = study_file(tmp_path, seeds=(8,))
    expanded, store = expand(file, "quick", changes={}, only={}, seeds=None), Store(tmp_path / "out")
    fill(store, expanded, lambda labels, seed: 0.5)
    (tmp_path / "secret").write_text(SECRET)
    return expanded, file, store


def remark(entry: Path, change: Change) -> None:
    """Change the mark of an entry."""
    mark = json.loads((entry / "trial.json").read_text())
    change(mark)
    (entry / "trial.json").write_text(json.dumps(mark))


def names(name: str, content: bytes = b"") -> Callable[[Path], None]:
    """Let the mark of an entry name another file, by its right checksum."""
    return lambda entry: remark(entry, lambda mark: mark["files"].update({name: sha256(content).hexdigest()}))


def pipe(name: str) -> Callable[[Path], None]:
    """Put a pipe that nobody writes to in the place of a file."""

    def put(entry: Path) -> None:
        (entry / name).unlink(missing_ok=True)
        os.mkfifo(entry / name)

    return put


def link(name: str, target: str) -> Callable[[Path], None]:
    """Put a symbolic link in the place of a file, and the right checksum of what it leads to into the mark."""

    def put(entry: Path) -> None:
        (entry / name).unlink()
        (entry / name).symlink_to(target)
        if name != "trial.json" and (entry / name).is_file():
            names(name, (entry / name).read_bytes())(entry)

    return put


def linked(entry: Path) -> None:
    """Put a symbolic link to a sound entry elsewhere in the place of an entry."""
    entry.rename(entry.parent.parent / "elsewhere")
    entry.symlink_to(entry.parent.parent / "elsewhere")


def lost(entry: Path) -> None:
    """Put a symbolic link that leads nowhere in the place of an entry."""
    rmtree(entry)
    entry.symlink_to("nowhere")


def sparse(name: str, size: int) -> Callable[[Path], None]:
    """Make a file endless, almost; it takes no room on the disk."""

    def put(entry: Path) -> None:
        os.truncate(entry / name, size)

    return put


def text(content: str) -> Callable[[Path], None]:
    """Put a text in the place of the mark."""

    def put(entry: Path) -> None:
        (entry / "trial.json").write_text(content)

    return put


def summarised(**changes: Any) -> Callable[[Path], None]:
    """Change the summary in the mark; None takes a number away."""

    def change(mark: dict[str, Any]) -> None:
        mark["summary"].update(changes)
        mark["summary"] = {name: value for name, value in mark["summary"].items() if value is not None}

    return lambda entry: remark(entry, change)


def file(name: str, content: str) -> Callable[[Path], None]:
    """Put another file into the entry, with its right checksum."""

    def put(entry: Path) -> None:
        (entry / name).write_text(content)
        names(name, content.encode())(entry)

    return put


WRONG: dict[str, tuple[Callable[[Path], None], str]] = {
    "device": (names("/dev/zero"), "files: '/dev/zero' is not the plain name of a file"),
    "absolute": (names("/etc/passwd"), "is not the plain name of a file"),
    "above": (names("../../../secret", SECRET.encode()), "is not the plain name of a file"),
    "parent": (names(".."), "is not the plain name of a file"),
    "here": (names("."), "is not the plain name of a file"),
    "nothing": (names(""), "is not the plain name of a file"),
    "pipe": (pipe("rounds.csv"), "rounds.csv: Not a regular file"),
    "pipe as the mark": (pipe("trial.json"), "trial.json: Not a regular file"),
    "link": (link("rounds.csv", "../../../secret"), "rounds.csv: A symbolic link"),
    "link to a device": (link("rounds.csv", "/dev/zero"), "rounds.csv: A symbolic link"),
    "link as the mark": (link("trial.json", "../../../secret"), "trial.json: A symbolic link"),
    "link as the entry": (linked, "it is a symbolic link"),
    "link to nothing": (lost, "it is a symbolic link"),
    "large file": (sparse("rounds.csv", 2**40), "rounds.csv: More than 268435456 bytes"),
    "large mark": (sparse("trial.json", 2**40), f"trial.json: More than {LARGEST_MARK} bytes"),
    "60 MB of {}": (text("[" + "{}," * 20_000_000 + "{}]"), f"trial.json: More than {LARGEST_MARK} bytes"),
    "nested": (text("[" * 100_000), "nested too deeply"),
    "no JSON": (text("\x1b[31m"), "Expecting value"),
    "a list": (text("[]"), "mark: Input should be a valid dictionary"),
    "no files": (lambda entry: remark(entry, lambda mark: mark.pop("files")), "mark.files: Field required"),
    "files": (lambda entry: remark(entry, lambda mark: mark.update(files=["x"])), "mark.files: Input should be"),
    "sums": (lambda entry: remark(entry, lambda mark: mark.update(files={"x": 7})), "mark.files.x: Input should be"),
    "status": (lambda entry: remark(entry, lambda mark: mark.update(status=["done"])), "mark.status: Input should be"),
    "reason": (lambda entry: remark(entry, lambda mark: mark.update(reason={"a": 1})), "mark.reason: Input should be"),
    "summary": (lambda entry: remark(entry, lambda mark: mark.update(summary="x")), "mark.summary: Input should be"),
    "score": (summarised(final_accuracy="0.5"), "summary.final_accuracy: Input should be a valid number"),
    "NaN": (summarised(final_accuracy=float("nan")), "summary.final_accuracy: Input should be a finite number"),
    "no score": (summarised(final_accuracy=None), "its summary has no final_accuracy"),
    "no rounds": (summarised(rounds=0), "its summary has no rounds"),
    "many rounds": (summarised(rounds=10**4000), "summary.rounds: Input should be less than"),
    "seconds": (summarised(seconds_train=[1]), "summary.seconds_train: Input should be a valid number"),
    "targets": (summarised(rounds_to_accuracy={"x": 1}), "summary.rounds_to_accuracy: could not convert"),
    "environment": (file("environment.json", '{"threads": "x"}'), "environment.device_name: Field required"),
    "environments": (file("environment.json", "[" * 100_000), "nested too deeply"),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("wrong", WRONG)
def test_a_strangers_entry_is_one_line_that_names_it_and_is_left_out(
    study: tuple[ScaledStudy, str, Store], command: Command, wrong: str
) -> None:
    expanded, _, store = study
    hash_, *others = expanded.trials
    make, said = WRONG[wrong]
    make(store.trials / hash_)
    fresh = Store(store.out)
    tracemalloc.start()
    try:
        assert fresh.finished(expanded.trials) == set(others)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    (complaint,) = fresh.complaints
    assert complaint.startswith(f"damaged entry {hash_[:12]} (")
    assert said in complaint
    assert SECRET not in complaint
    assert len(complaint.splitlines()) == 1
    assert peak < 50 * 2**20
    assert fresh.status(hash_) in (None, "done")


COMMANDS: Mapping[str, Callable[[str, Path, Path], tuple[Any, list[str]]]] = {
    "report": lambda study, out, _: (report, [study, "--out", str(out)]),
    "report --compare": lambda study, out, _: (report, [study, "--out", str(out), "--compare", str(out)]),
    "verify": lambda _, out, __: (verify, [str(out), "--dry-run"]),
    "publish": lambda study, out, there: (publish, [study, "--out", str(out), "--to", str(there / "packs")]),
}


def test_a_link_in_the_place_of_an_entry_is_moved_aside_and_what_it_leads_to_stays(
    study: tuple[ScaledStudy, str, Store],
) -> None:
    expanded, _, store = study
    hash_ = next(iter(expanded.trials))
    linked(store.trials / hash_)
    fresh = Store(store.out)
    assert fresh.get(hash_) is None
    fresh.mend()
    assert not os.path.lexists(store.trials / hash_)
    assert (store.out / "elsewhere" / "trial.json").is_file()


@pytest.mark.timeout(120)
@pytest.mark.parametrize("door", COMMANDS)
@pytest.mark.parametrize("kind", ["folder", "pack"])
def test_every_command_that_reads_entries_says_so_in_one_line_and_goes_on(
    study: tuple[ScaledStudy, str, Store],
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    door: str,
    kind: str,
) -> None:
    expanded, study_, store = study
    monkeypatch.chdir(tmp_path)
    first, second, *_ = expanded.trials
    if kind == "folder":
        names("/dev/zero")(store.trials / first)
        pipe("clients.csv")(store.trials / second)
    else:
        mark = {"hash": first, "status": "done", "reason": None, "summary": {}, "files": {"/dev/zero": SUM}}
        pack = packed({"trial.json": json.dumps(mark).encode()})
        assert len(pack) < 350
        store.put(first, pack)
        (store.trials / f"{second}{SUFFIX}").write_bytes(lzma.compress(b"[" + b"{}," * 20_000_000 + b"{}]", preset=0))
    main, arguments = COMMANDS[door](study_, store.out, tmp_path)
    code, _, error = command(main, *arguments)
    lines = [line for line in error.splitlines() if "entry" in line]
    assert {line[len("warning: damaged entry ") :][:12] for line in lines} == {first[:12], second[:12]}
    assert "Traceback" not in error
    if door == "verify":  # these trials have no config, so none is left to run
        assert (code, error.splitlines()[-1]) == (2, f"error: {store.out}: holds no trial that can be run again")
    else:
        assert code == 0
        assert len(error.splitlines()) == len(lines)


@pytest.mark.timeout(60)
def test_a_strangers_entry_is_left_out_in_python_too(study: tuple[ScaledStudy, str, Store]) -> None:
    expanded, file_, store = study
    first, *others = expanded.trials
    names("/dev/zero")(store.trials / first)
    assert set(fedbench.load(file_, "quick", store.out).stored) == set(others)
    for hash_ in others:
        names("/dev/zero")(store.trials / hash_)
    with pytest.raises(UserError, match="holds no trial"):
        fedbench.load(file_, "quick", store.out)


@pytest.mark.parametrize(
    ("table", "content", "said"),
    [
        ("rounds.csv", "no,numbers\n1,2\n", "rounds.csv has no numbers in its column 'round'"),
        ("rounds.csv", "round,test_accuracy,test_loss\n1,x,2\n", "rounds.csv has no numbers in its column 'test_acc"),
        ("rounds.csv", "", "rounds.csv is not a table (EmptyDataError"),
        ("rounds.csv", 'round,"\n', "rounds.csv is not a table (ParserError"),
        ("rounds.csv", "\udc00", "rounds.csv is not a table (UnicodeDecodeError"),
    ],
)
def test_a_table_of_a_stranger_that_is_none_is_one_line_and_its_entry_is_left_out(
    study: tuple[ScaledStudy, str, Store], command: Command, table: str, content: str, said: str
) -> None:
    expanded, file_, store = study
    hash_, *_ = expanded.trials
    raw = content.encode(errors="surrogateescape") if content != "\udc00" else b"\xff\xfe\xff"
    (store.trials / hash_ / table).write_bytes(raw)
    names(table, raw)(store.trials / hash_)
    code, text_, error = command(report, file_, "--out", str(store.out))
    assert code == 0
    assert error.startswith(f"warning: damaged entry {hash_[:12]}: {said}")
    assert error.endswith(f"; it is left out until {store.trials / hash_} is removed\n")
    assert "1 of 4 trials have not been run" in text_


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"\xff", "a file of it is not text"), (b"0" * LARGEST, "its files have 4,195,240 bytes (at most 2,097,152)")],
    ids=["no text", "large"],
)
def test_what_no_pack_can_hold_is_not_published_and_said(
    study: tuple[ScaledStudy, str, Store], command: Command, tmp_path: Path, content: bytes, said: str
) -> None:
    expanded, file_, store = study
    hash_, *_ = expanded.trials
    (store.trials / hash_ / "more.txt").write_bytes(content)
    names("more.txt", content)(store.trials / hash_)
    code, text_, _ = command(publish, file_, "--out", str(store.out), "--to", str(tmp_path / "packs"))
    assert code == 1
    assert f"{hash_[:12]}: not published, since {said}" in text_
    assert "3 packed, 0 there already" in text_


def test_a_pack_is_refused_by_its_size_before_it_is_parsed(tmp_path: Path) -> None:
    many = lzma.compress(b"[" + b"{}," * 20_000_000 + b"{}]", preset=0)
    store = Store(tmp_path)
    store.put(HASH, many)
    tracemalloc.start()
    try:
        assert store.get(HASH) is None
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * LARGEST
    assert "not a pack" in store.complaints[0]


@pytest.mark.timeout(60)
def test_a_pack_cannot_make_itself_large_or_slow_by_its_tables(tmp_path: Path) -> None:
    column = ",".join(["0.1"] * 100_000)
    repeated = {"a.csv": {"head": ["x"], "columns": [column], "single": [0] * 400_000}}
    assert len(unpacked(lzma.compress(json.dumps(repeated).encode()))["a.csv"]) < LARGEST
    grown = {"a.csv": {"head": ["x"], "columns": [",".join(["1"] * 1_000_000)], "single": [0]}}
    grown["b.csv"] = grown["a.csv"]
    with pytest.raises(ValueError, match="not a pack"):
        unpacked(lzma.compress(json.dumps(grown).encode()))


@pytest.mark.timeout(60)
def test_a_pack_that_is_a_large_file_or_a_pipe_is_no_entry(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put(HASH, b"")
    os.truncate(store.trials / f"{HASH}{SUFFIX}", 2**40)
    assert store.get(HASH) is None
    assert f"More than {LARGEST} bytes" in store.complaints[0]
    (store.trials / f"{HASH}{SUFFIX}").unlink()
    os.mkfifo(store.trials / f"{HASH}{SUFFIX}")
    assert Store(tmp_path).get(HASH) is None


@pytest.mark.parametrize("name", ["../x", "/tmp/x", "..", "a/b"])
def test_files_that_come_from_another_node_are_confined_too(tmp_path: Path, name: str) -> None:
    mark = {"hash": HASH, "status": "failed", "reason": "why", "summary": {}, "files": {name: SUM}}
    with pytest.raises(ValueError, match="is not the plain name of a file"):
        Store(tmp_path).take(HASH, {"trial.json": json.dumps(mark).encode(), name: b""})
    assert not list(tmp_path.rglob("*"))


def test_a_file_that_no_reader_would_take_is_not_stored(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with store.entry(HASH) as folder:
        (folder / "rounds.csv").write_text("")
        os.truncate(folder / "rounds.csv", 2**40)
        with pytest.raises(UserError, match=r"rounds\.csv has more bytes than a file of a stored trial may have"):
            store.commit(folder, HASH, "failed", "why", {})
    assert store.get(HASH) is None
