"""A trial as a worker runs it: with trackers, mirror and requests to stop; its result is sent to another process."""

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from fedbench.base.environment import variables
from fedbench.base.errors import UserError, one_line
from fedbench.config import TrialConfig
from fedbench.config.naming import RunName
from fedbench.simulation import Callback, Record, Simulation
from fedbench.simulation.checkpoint import Stopped, StopRequest
from fedbench.simulation.engines import CaptureFailed
from fedbench.store.away import node_folder, tracked_files
from fedbench.store.execute import record_failure, run_trial
from fedbench.store.gpu import failed_captures_raised
from fedbench.store.mark import UNCAPTURED, UNSTORED, read_mark
from fedbench.store.mirror import Mirror
from fedbench.store.store import MARKER
from fedbench.trackers.guard import Guarded, tracked

Commit = Callable[[str, Mapping[str, bytes], bytes | None, Mapping[str, bytes]], tuple[str, str]]


class RemoteStore:
    """A store to which another process writes: entries are sent to it, checkpoints go to a folder of this machine.

    commit: sends an entry, its model and files of trackers; returns a kind of error and its message (see `Keeper`);
    folder: the results folder on its machine (`at_home`), elsewhere a folder in the node's cache; trackers: those that
    are to be told of a failure, before their files are sent; ended: how the trial ended.
    """

    def __init__(self, commit: Commit, shared: Mapping[str, Any], *, at_home: bool) -> None:
        self.commit, self.at_home = commit, at_home
        self.folder = Path(shared["out"]) if at_home else node_folder(shared["store"])
        self.complaints, self.trackers, self.ended = list[str](), list[Guarded](), dict[str, Any]()

    def checkpoints(self, hash_: str) -> Path:
        """Return the folder for the checkpoints of a trial."""
        return self.folder / "checkpoints" / hash_

    def accept(self, hash_: str, files: Mapping[str, bytes], model: bytes | None) -> None:
        """Send an entry, its model and, from another node, what trackers wrote."""
        mark = read_mark(files[MARKER])
        for tracker in self.trackers if mark.status == "failed" else ():
            tracker.crashed(mark.reason or "")
        more = {} if self.at_home else tracked_files(self.folder, hash_)
        kind, problem = self.commit(hash_, dict(files), model, more)
        if kind:
            raise (OSError if kind == "OSError" else UserError)(problem)
        if not self.at_home and mark.status != "failed":  # a mirror removes then what it has of them
            shutil.rmtree(self.checkpoints(hash_), ignore_errors=True)
        last = mark.summary.get("last_accuracy") if mark.status == "done" else None
        self.ended = {"status": mark.status, "reason": mark.reason or ""}
        self.ended |= {} if last is None else {"last_accuracy": last}


def run_remotely(
    prepare: Callable[[], TrialConfig],
    hash_: str,
    name: RunName,
    remote: RemoteStore,
    shared: Mapping[str, Any],
    callback: Callback[Simulation, Record],
    asked: Callable[[], bool],
    device: Callable[[], str],
) -> Iterator[Record]:
    """Run a trial and yield its rounds; `remote.ended` then says how it ended.

    prepare: makes this process ready, and returns the config; shared: what all trials of the command have in common;
    asked: returns whether the trial is to stop.
    """
    warn = remote.complaints.append
    try:
        config = prepare()
        if config.hash != hash_:
            raise UserError("this worker has other code than the driver: install the same fedbench and plugins")
        with ExitStack() as stack:
            stack.enter_context(variables(shared["environment"]))
            stack.enter_context(failed_captures_raised())
            tracking = tracked(shared["trackers"], config, remote.folder, warn, name)
            remote.trackers, mirror = stack.enter_context(tracking), None
            if shared["checkpoints"]:
                place = Mirror(shared["checkpoints"], hash_, remote.checkpoints(hash_), warn)
                mirror = stack.enter_context(place)
            data_dir = Path(shared["data_dir"]) if shared["data_dir"] else None
            heard = [callback, *remote.trackers, StopRequest(asked, remote.checkpoints(hash_))]
            yield from run_trial(config, remote, data_dir, heard, device, mirror, shared["save_model"])
    except Stopped as error:
        remote.ended = {"status": "stopped", "reason": str(error)}
    except CaptureFailed as error:
        remote.ended, remote.complaints = {"status": UNCAPTURED, "reason": str(error)}, []
    except OSError as error:  # a full disk, say: the next command goes on from the checkpoint
        remote.ended = {"status": UNSTORED, "reason": one_line(error)}
    except UserError as error:  # the driver could import a module that this worker cannot
        remote.trackers = []  # they know
        try:
            record_failure(remote, hash_, error)
            remote.ended["reason"] = str(error)
        except OSError as problem:
            remote.ended = {"status": UNSTORED, "reason": one_line(f"{error}; {problem}")}
