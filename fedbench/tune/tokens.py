"""The token that guards a cluster started here."""

import os
import secrets
from pathlib import Path

from fedbench.data.official import cache_dir


def private_token() -> Path:
    """The file with the token that guards a cluster started here, readable by its owner alone.

    Ray would make one that everybody on the machine can read. Of two first runs at a time, one makes it.
    """
    named = os.environ.get("RAY_AUTH_TOKEN_PATH")
    path = Path(named) if named else cache_dir() / "ray-token"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch = path.with_name(f".{path.name}.{os.getpid()}.new")
        with os.fdopen(os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
            stream.write(secrets.token_hex(32))
        try:
            os.link(scratch, path)  # unlike a rename, never in place of one that is there
        except FileExistsError:
            pass
        finally:
            scratch.unlink()
    os.environ["RAY_AUTH_TOKEN_PATH"] = str(path)
    return path
