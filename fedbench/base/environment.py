"""Environment variables of processes that train."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

# By default glibc gives freed memory back to the system at once: large forward passes then page-fault all the time.
WORKER_ENV = {
    "MALLOC_MMAP_THRESHOLD_": "1073741824",
    "MALLOC_TRIM_THRESHOLD_": "1073741824",
    "MALLOC_TOP_PAD_": "67108864",
}


@contextmanager
def variables(values: Mapping[str, str | None]) -> Iterator[None]:
    """Set environment variables, or remove those with None, while a block lasts."""
    before = {name: os.environ.get(name) for name in values}
    _set(values)
    try:
        yield
    finally:
        _set(before)


def _set(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
