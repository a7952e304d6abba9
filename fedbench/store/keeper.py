"""Who gives trials to workers and stores their results: the only one that writes the store for a command."""

from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path, PurePosixPath
from typing import Any

from fedbench.base.errors import UserError, one_line
from fedbench.base.files import write_bytes
from fedbench.store.leases import HeldElsewhereError, Lease
from fedbench.store.store import Store


class Keeper:
    """Gives trials to workers, tells them when to stop, and stores their results. Every call may be repeated.

    trials: what a worker needs to know of each trial, by its hash.
    """

    def __init__(self, store: Store, trials: Mapping[str, Mapping[str, Any]]) -> None:
        self.store, self.trials = store, trials
        self._leases: dict[str, ExitStack] = {}
        self._stopping = False

    def stop(self) -> None:
        """Let running trials stop after their round, and start no others."""
        self._stopping = True

    def begin(self, hash_: str) -> dict[str, Any]:
        """Take the lease of a trial for a worker.

        The answer has a `status`: "run" with what the worker needs to know, "stopped", "elsewhere" with the `reason`,
        or the status of the trial's entry if another command has stored it meanwhile.
        """
        if self._stopping:
            return {"status": "stopped", "reason": ""}
        try:
            if not self.store.finished([hash_]):
                self._hold(hash_)
                self.store.mend()
        except HeldElsewhereError as error:
            return {"status": "elsewhere", "reason": str(error)}
        stored = self.store.get(hash_)
        if stored and stored.status != "failed":
            self.release(hash_)
            return {"status": stored.status, "reason": stored.reason or "", "found": True, **_last(stored.summary)}
        complaints, self.store.complaints = self.store.complaints, []
        return {"status": "run", "warnings": complaints, **self.trials[hash_]}

    def stopping(self, hash_: str) -> bool:
        """Return whether a running trial is to stop; its lease is taken again if this process is a new one."""
        with suppress(HeldElsewhereError):  # since this process started again; at worst the trial is run twice
            self._hold(hash_)
        return self._stopping

    def commit(
        self, hash_: str, files: Mapping[str, bytes], model: bytes | None, more: Mapping[str, bytes]
    ) -> tuple[str, str]:
        """Store the entry of a trial, its model, and files of trackers from another node.

        Returns a kind of error and its message: "" for none, "OSError" or "UserError".
        """
        try:
            for name, content in more.items():
                if not {"..", "/"} & set(PurePosixPath(name).parts):
                    place = Path(self.store.out, name)
                    place.parent.mkdir(parents=True, exist_ok=True)
                    write_bytes(place, content)
            self.store.accept(hash_, files, model)
        except OSError as error:
            return "OSError", one_line(error)
        except (UserError, ValueError) as error:
            return "UserError", one_line(error)
        return "", ""

    def release(self, hash_: str) -> None:
        """Give the lease of a trial back."""
        if lease := self._leases.pop(hash_, None):
            lease.close()

    def release_all(self) -> None:
        """Give all leases back: no trial of this command runs now."""
        for hash_ in list(self._leases):
            self.release(hash_)

    def _hold(self, hash_: str) -> None:
        """Take the lease of a trial, unless this process has it; HeldElsewhereError if another command has."""
        if hash_ not in self._leases:
            with ExitStack() as lease:
                lease.enter_context(Lease(self.store.lease(hash_)))
                self._leases[hash_] = lease.pop_all()


def _last(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return the accuracy of the last round, if a summary has it."""
    last = summary.get("last_accuracy")
    return {} if last is None else {"last_accuracy": last}
