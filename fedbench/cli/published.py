"""Publishing trials as packs, and running published ones again: what the publish and verify commands do."""

import argparse
import random
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from fedbench.analysis.agreement import RULE, agreement, tolerance
from fedbench.base.errors import UserError
from fedbench.base.packs import LARGEST as WITHIN
from fedbench.base.packs import SUFFIX, packed
from fedbench.base.text import say
from fedbench.cli.command import DONE, FAILED
from fedbench.cli.progress import RunProgress, clock
from fedbench.cli.studies import chosen_studies, results_in, warn
from fedbench.cli.tables import counted_verdicts
from fedbench.config import TrialConfig
from fedbench.data.official import check_data_dir
from fedbench.simulation.federation import check_data
from fedbench.specs.expand import ScaledStudy
from fedbench.store.execute import execute
from fedbench.store.folder import config_of
from fedbench.store.store import Store, StoredTrial

LARGEST = 60_000  # bytes of a pack
LARGEST_UNPACKED = WITHIN // 2  # bytes of the files in it: as JSON they may take some more
LARGEST_SUM = 15_000_000  # and of all together


def publish(options: argparse.Namespace) -> int:
    """Pack all finished trials of the studies; returns the exit code: 1 if one is too large."""
    studies, source = chosen_studies(options), results_in("--out", options.out, options.name)
    if options.to.resolve() == options.out.resolve():
        raise UserError(f"--to {options.to}: holds the trials to be packed; name another folder")
    target, large = Store(options.to), 0
    target.check()
    for study in studies:
        large += _publish_study(study, source, target)
        warn(source)
    sizes = [path.stat().st_size for path in target.trials.glob(f"*{SUFFIX}")]
    largest, whole = max(sizes, default=0) / 1e3, sum(sizes) / 1e6
    say(f"{options.to}: {len(sizes)} trials, {whole:.2f} MB, the largest {largest:.1f} kB")
    if sum(sizes) > LARGEST_SUM:
        say(f"that is more than {LARGEST_SUM / 1e6:g} MB")
    return FAILED if large or sum(sizes) > LARGEST_SUM else DONE


def _publish_study(study: ScaledStudy, source: Store, target: Store) -> int:
    """Pack the finished trials of a study, and say how many; returns how many cannot be packed."""
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
    """The pack of a trial's files; ValueError says why there is none."""
    try:
        pack, size = packed(files), sum(map(len, files.values()))
    except UnicodeDecodeError as error:
        raise ValueError(f"a file of it is not text ({error})") from error
    if len(pack) > LARGEST:
        raise ValueError(f"its pack has {len(pack):,} bytes (at most {LARGEST:,})")
    if size > LARGEST_UNPACKED:
        raise ValueError(f"its files have {size:,} bytes (at most {LARGEST_UNPACKED:,})")
    return pack


def verify(options: argparse.Namespace) -> int:
    """Run some trials again; returns the exit code: 1 if one does not agree."""
    check_data_dir(options.data_dir)
    store = Store(options.results)
    try:
        known = _runnable(store)
    finally:
        warn(store)
    picked = random.Random(options.seed).sample(sorted(known), min(options.trials, len(known)))
    trials = {hash_: trial for hash_ in picked if (trial := store.get(hash_))}
    for hash_, trial in trials.items():
        say(f"{in_words(known[hash_])}: took {clock(_seconds(trial))} on {trial.environment()}")
    say(f"{len(picked)} of {len(known)} trials, {clock(sum(map(_seconds, trials.values())))} in all")
    if options.dry_run:
        return DONE
    check_data([known[hash_] for hash_ in picked], options.data_dir)
    say(RULE)
    with _scratch(options.out) as scratch:
        verdicts = [_verify(known[hash_], trials[hash_], known, store, scratch, options.data_dir) for hash_ in picked]
    say(f"{len(verdicts)} trials run again: {counted_verdicts(verdicts)}")
    return FAILED if "differs" in verdicts else DONE


def _runnable(store: Store) -> dict[str, TrialConfig]:
    """The configs of stored results by hash; those that this version would not run are counted, and left out."""
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
    """A trial by what mostly differs between trials."""
    alpha = getattr(config.data, "alpha", None)
    spread = f", alpha {alpha:g}" if alpha is not None else ""
    what = f"{config.method.name}, {config.model} on {config.data.name}{spread}, seed {config.seed}"
    return f"{config.hash[:12]} ({what}, {config.rounds} rounds)"


def _seconds(trial: StoredTrial) -> float:
    return float(sum(trial.summary.get(f"seconds_{part}") or 0.0 for part in ("train", "server", "eval")))


@contextmanager
def _scratch(out: Path | None) -> Iterator[Store]:
    """Where trials are run again: a folder that is kept, or one that is removed, also at Ctrl-C."""
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
) -> str:
    """Run a trial again and say what follows."""
    say(f"running {in_words(config)}")
    with RunProgress(config.rounds, Console()) as progress:
        ours = execute(config, scratch, data_dir, [progress])
    if ours.status == "failed":
        say(f"differs: it failed here: {ours.reason}")
        return "differs"
    seeds = {hash_ for hash_, other in known.items() if _seedless(other) == _seedless(config)} - {config.hash}
    others = [trial.scored_over(None) for hash_ in sorted(seeds) if (trial := store.get(hash_))]
    found = agreement(ours.scored_over(None), published.scored_over(None), tolerance(others))
    scores = f"{_percent(found.ours)} here, {_percent(found.published)} published"
    apart = "" if found.difference is None else f", {found.difference:+.2f} points (at most {found.tolerance:.2f})"
    say(f"{found.verdict}: {scores}{apart}")
    return found.verdict


def _seedless(config: TrialConfig) -> str:
    """What all seeds of a cell share."""
    return config.model_copy(update={"seed": 0}).hash


def _percent(score: float | None) -> str:
    return "diverged" if score is None else f"{score:.2f} %"
