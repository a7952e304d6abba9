"""Faults of the file system: the n-th call below a folder fails, or every one from the n-th on."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CALLS = ("open", "os.mkdir", "os.rename", "os.link", "os.remove", "os.rmdir", "os.listdir", "os.scandir", "os.utime")
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class Faults:
    """Python tells a hook of every such call before it makes it; what the hook raises comes out of the call.

    `calls` are those that were seen while armed, as words.
    """

    def __init__(self) -> None:
        self.calls: list[str] = []
        self._folder, self._number, self._at, self._lasting, self._writes = "", 0, -1, False, False
        sys.addaudithook(self._hear)  # for the life of the process: there is no way to take one back

    @contextmanager
    def armed(
        self, folder: Path, number: int, at: int, *, lasting: bool = False, writes: bool = False
    ) -> Iterator["Faults"]:
        """Let the call with index `at` below a folder fail with an errno; `writes`: only calls that write count."""
        self.calls, self._number, self._at, self._lasting, self._writes = [], number, at, lasting, writes
        self._folder = str(folder)
        try:
            yield self
        finally:
            self._folder = ""

    @property
    def struck(self) -> bool:
        """Whether there was such a call."""
        return len(self.calls) > self._at

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self._folder or event not in CALLS or not str(arguments[0]).startswith(self._folder):
            return
        if self._writes and (event in ("os.listdir", "os.scandir") or (event == "open" and not arguments[2] & WRITES)):
            return
        self.calls.append(f"{event} {arguments[0]}")
        index = len(self.calls) - 1
        if index == self._at or (self._lasting and index > self._at):
            raise OSError(self._number, os.strerror(self._number), str(arguments[0]))
