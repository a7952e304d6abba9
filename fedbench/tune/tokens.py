"""The token without which nobody can use a Ray that is started here."""

import os
import secrets
import sys
from contextlib import suppress
from pathlib import Path

from fedbench.base.files import write_once


def private_token() -> Path:
    """Return the file with Ray's token; it is made if there is none, and only this user can read it.

    Anybody who has the token and reaches Ray's ports, which are open on all interfaces, can run code as this user. If
    Ray made the file itself, everybody on this machine could read it.
    """
    path = Path(os.environ.get("RAY_AUTH_TOKEN_PATH") or "~/.ray/auth_token").expanduser()
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        write_once(path, secrets.token_hex(32).encode())
    with suppress(OSError):  # it may belong to somebody else who shares it on purpose
        path.chmod(0o600)
    return path


def shown_token(path: Path) -> str:
    """Return the token on a terminal, elsewhere only the file that holds it: others may read logs."""
    return path.read_text().strip() if sys.stdout.isatty() else f"what {path} holds"
