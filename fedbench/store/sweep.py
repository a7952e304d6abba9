"""What killed processes have left behind in a results folder, removed."""

from collections.abc import Iterable
from pathlib import Path

from fedbench.base.files import sweep
from fedbench.store.leases import dead, drop, read
from fedbench.store.store import RETIRED, Store


def sweep_store(store: Store, hashes: Iterable[str], reports: Iterable[Path] = ()) -> None:
    """Remove temporary files of processes that have ended, and what finished trials no longer need.

    Files of other machines that share the folder are left alone: whether their processes have ended is unknown.
    """
    folders = [store.out / name for name in ("trials", "models", "leases", "checkpoints")]
    for folder in (store.out, *folders, *reports):
        sweep(folder)
    for hash_ in _with_leftovers(store).intersection(hashes):
        lease = store.lease(hash_)
        holder = read(lease)
        if holder and dead(holder):
            drop(lease, holder)
        if not read(lease):
            store.settle(hash_)


def _with_leftovers(store: Store) -> set[str]:
    """Return the hashes of trials that have a lease, checkpoints or a retired entry."""
    retired = {path.name.removeprefix(RETIRED) for path in store.trials.glob(f"{RETIRED}*")}
    return retired.union(*({path.name for path in (store.out / name).glob("*")} for name in ("leases", "checkpoints")))
