"""What killed processes have left behind in a results folder, removed."""

from collections.abc import Iterable
from pathlib import Path

from fedbench.base.files import remove, sweep
from fedbench.store.leases import dead, drop, read
from fedbench.store.store import Store


def sweep_store(store: Store, hashes: Iterable[str], reports: Iterable[Path] = ()) -> None:
    """Remove half-written files of processes that are gone, and what finished trials no longer need.

    Of other machines that share the folder nothing is touched: which of their processes are gone cannot be told.
    """
    for folder in (store.out, store.trials, store.out / "leases", store.out / "checkpoints", *reports):
        sweep(folder)
    for hash_ in hashes:
        lease = store.lease(hash_)
        holder = read(lease)
        if holder and dead(holder):
            drop(lease, holder)
        if not read(lease) and store.status(hash_) in ("done", "diverged"):
            remove(store.checkpoints(hash_))
            remove(store.retired(hash_))
