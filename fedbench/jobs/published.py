"""Publish finished trials as small packs, and verify published ones by running them again."""

import random
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

from fedbench.analysis.agreement import RULE, Verdict, agreement, tolerance
from fedbench.base.errors import UserError
from fedbench.base.packs import LARGEST as WITHIN
from fedbench.base.packs import SUFFIX, packed
from fedbench.base.text import say
from fedbench.config import TrialConfig
from fedbench.console.progress import RunProgress, clock
from fedbench.console.tables import counted_verdicts
from fedbench.data.official import check_data_dir
from fedbench.jobs.options import Selection, check_verification
from fedbench.jobs.report import results_in
from fedbench.jobs.study import selected_studies, warn_about
from fedbench.simulation.federation import check_data
from fedbench.specs.expand import ScaledStudy
from fedbench.store.execute import execute
from fedbench.store.folder import config_of
from fedbench.store.store import Store, StoredTrial

LARGEST = 60_000  # bytes of a pack
LARGEST_UNPACKED = WITHIN // 2  # bytes of the files in it: as JSON they may take some more
LARGEST_SUM = 15_000_000  # and of all together


class Verified(NamedTuple):
    """A published trial that was run again.

    ours, published: final scores in percent, None if diverged; difference: in points; tolerance: how many points they
    may be apart; verdict: `equal` (the same numbers in every round), `close` (within the tolerance) or `differs`;
    reason: why the trial failed here, if it did.
    """

    hash: str
    trial: str
    ours: float | None
    published: float | None
    difference: float | None
    tolerance: float | None
    verdict: Verdict
    reason: str = ""


def publish(selection: Selection, to: Path) -> bool:
    """Pack all finished trials of the selected studies; return whether all packs are small enough."""
    source = results_in("--out", selection.out, selection.name)
    studies = selected_studies(selection, source)
    if to.resolve() == selection.out.resolve():
        raise UserError(f"--to {to}: holds the trials to be packed; name another folder")
    target, large = Store(to), 0
    target.check()
    for study in studies:
        large += _publish_study(study, source, target)
        warn_about(source)
    sizes = [path.stat().st_size for path in target.trials.glob(f"*{SUFFIX}")]
    largest, whole = max(sizes, default=0) / 1e3, sum(sizes) / 1e6
    say(f"{to}: {len(sizes)} trials, {whole:.2f} MB, the largest {largest:.1f} kB")
    if sum(sizes) > LARGEST_SUM:
        say(f"that is more than {LARGEST_SUM / 1e6:g} MB")
    return not large and sum(sizes) <= LARGEST_SUM


def _publish_study(study: ScaledStudy, source: Store, target: Store) -> int:
    """Pack the finished trials of a study, and print how many; return how many cannot be packed."""
    finished, packs, refused = sorted(source.finished(study.trials)), dict[str, bytes](), 0
    for hash_ in finished:
        trial, there = source.get(hash_), target.get(hash_)
        if trial and not (there and there.files() == trial.files()):  # equal files in other bytes are left alone
            try:
                packs[hash_] = _pack(trial.files())
            except ValueError as problem:
                refused += 1
                say(f"{hash_[:12]}: not published, since {problem}")
    for hash_, pack in packs.items():
        target.put(hash_, pack)
    counts = f"{len(packs)} packed, {len(finished) - len(packs) - refused} there already"
    missing = len(study.trials) - len(finished)
    say(f"{study.name}, scale {study.scale}: {counts}, {missing} of {len(study.trials)} not run")
    return refused


def _pack(files: Mapping[str, bytes]) -> bytes:
    """Return the pack of a trial's files; ValueError says why it cannot be packed."""
    try:
        pack, size = packed(files), sum(map(len, files.values()))
    except UnicodeDecodeError as error:
        raise ValueError(f"a file of it is not text ({error})") from error
    if len(pack) > LARGEST:
        raise ValueError(f"its pack has {len(pack):,} bytes (at most {LARGEST:,})")
    if size > LARGEST_UNPACKED:
        raise ValueError(f"its files have {size:,} bytes (at most {LARGEST_UNPACKED:,})")
    return pack


def verify(
    results: Path,
    trials: int = 1,
    seed: int = 0,
    *,
    out: Path | None = None,
    data_dir: Path | None = None,
    dry_run: bool = False,
) -> list[Verified]:
    """Pick trials of a results folder at random, run them again, and print and return how well they agree.

    out: a folder to store them in, and to continue with later; None uses a temporary folder.
    """
    check_verification(results, trials, out)
    check_data_dir(data_dir)
    store = Store(results)
    try:
        known = _runnable(store)
    finally:
        warn_about(store)
    picked = random.Random(seed).sample(sorted(known), min(trials, len(known)))
    stored = {hash_: trial for hash_ in picked if (trial := store.get(hash_))}
    for hash_, trial in stored.items():
        say(f"{in_words(known[hash_])}: took {clock(_seconds(trial))} on {trial.environment()}")
    say(f"{len(picked)} of {len(known)} trials, {clock(sum(map(_seconds, stored.values())))} in all")
    if dry_run:
        return []
    check_data([known[hash_] for hash_ in picked], data_dir)
    say(RULE)
    with _scratch(out) as scratch:
        verified = [_verify(known[hash_], stored[hash_], known, store, scratch, data_dir) for hash_ in picked]
    say(f"{len(verified)} trials run again: {counted_verdicts([each.verdict for each in verified])}")
    return verified


def _runnable(store: Store) -> dict[str, TrialConfig]:
    """Return the configs of stored trials by hash; print how many are left out, as this version would not run them."""
    configs, others = dict[str, TrialConfig](), 0
    for trial in store.all():
        try:
            config = config_of(trial)
        except UserError:  # of somebody's own method, which is not here
            config = None
        if config and config.hash == trial.hash and trial.status != "failed":
            configs[trial.hash] = config
        else:
            others += 1
    if others:
        say(f"{others} trials are left out: they failed, or are of another version, or need a module (--import)")
    if not configs:
        raise UserError(f"{store.out}: holds no trial that can be run again")
    return configs


def in_words(config: TrialConfig) -> str:
    """Return a trial's name, made of the settings that mostly differ between trials."""
    alpha = getattr(config.data, "alpha", None)
    spread = f", alpha {alpha:g}" if alpha is not None else ""
    what = f"{config.method.name}, {config.model} on {config.data.name}{spread}, seed {config.seed}"
    return f"{config.hash[:12]} ({what}, {config.rounds} rounds)"


def _seconds(trial: StoredTrial) -> float:
    return float(sum(trial.summary.get(f"seconds_{part}") or 0.0 for part in ("train", "server", "eval")))


@contextmanager
def _scratch(out: Path | None) -> Iterator[Store]:
    """Yield the store in which trials are run again: in a given folder, or in one that is removed afterwards."""
    if out:
        store = Store(out)
        store.prepare()
        yield store
        return
    with tempfile.TemporaryDirectory(prefix="fedbench-verify-") as folder:
        yield Store(Path(folder))


def _verify(
    config: TrialConfig,
    published: StoredTrial,
    known: Mapping[str, TrialConfig],
    store: Store,
    scratch: Store,
    data_dir: Path | None,
) -> Verified:
    """Run a trial again, and print and return how well it agrees with the published one."""
    name = in_words(config)
    say(f"running {name}")
    with RunProgress(config.rounds, Console()) as progress:
        ours = execute(config, scratch, data_dir, [progress])
    if ours.status == "failed":
        say(f"differs: it failed here: {ours.reason}")
        return Verified(config.hash, name, None, None, None, None, "differs", str(ours.reason))
    seeds = {hash_ for hash_, other in known.items() if _seedless(other) == _seedless(config)} - {config.hash}
    others = [trial.scored_over(None) for hash_ in sorted(seeds) if (trial := store.get(hash_))]
    found = agreement(ours.scored_over(None), published.scored_over(None), tolerance(others))
    scores = f"{_percent(found.ours)} here, {_percent(found.published)} published"
    apart = "" if found.difference is None else f", {found.difference:+z.2f} points (at most {found.tolerance:.2f})"
    say(f"{found.verdict}: {scores}{apart}")
    numbers = (found.ours, found.published, found.difference, found.tolerance)
    return Verified(config.hash, name, *numbers, found.verdict)


def _seedless(config: TrialConfig) -> str:
    """Return a hash that all seeds of a cell share."""
    return config.model_copy(update={"seed": 0}).hash


def _percent(score: float | None) -> str:
    return "diverged" if score is None else f"{score:.2f} %"
