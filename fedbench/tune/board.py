"""Notes that a command and its workers leave for each other in Ray's control store, which every node can read."""

import time

from ray.experimental import internal_kv

SPACE = b"fedbench"
LOOK_SECONDS = 1.0


class Board:
    """The notes of one command, by their names; small ones: the control store keeps them in its memory."""

    def __init__(self, command: str) -> None:
        self.command = command

    def post(self, name: str, content: bytes = b"") -> None:
        """Put up a note, in place of the one of this name."""
        internal_kv._internal_kv_put(self._key(name), content, namespace=SPACE)

    def read(self, name: str) -> bytes | None:
        """The content of a note, if there is one."""
        content = internal_kv._internal_kv_get(self._key(name), namespace=SPACE)
        return None if content is None else bytes(content)

    def names(self, prefix: str) -> list[str]:
        """The notes whose names begin so."""
        keys = internal_kv._internal_kv_list(self._key(prefix), namespace=SPACE)
        return [key.decode().partition("/")[2] for key in keys]

    def clear(self) -> None:
        """Take all notes down."""
        internal_kv._internal_kv_del(self._key(""), del_by_prefix=True, namespace=SPACE)

    def _key(self, name: str) -> bytes:
        return f"{self.command}/{name}".encode()


class StopNote:
    """A note at which a run stops, where it cannot see the driver's stop file. Looked for once a second."""

    NAME = "stop"

    def __init__(self, board: Board) -> None:
        self.board = board
        self._there, self._looked = False, -LOOK_SECONDS

    def exists(self) -> bool:
        """Whether it has been put up."""
        if not self._there and time.monotonic() - self._looked >= LOOK_SECONDS:
            self._looked = time.monotonic()
            self._there = self.board.read(self.NAME) is not None
        return self._there
