"""Try the kinds of trials of a study for one round each, on tiny data, before a thousand of them are run."""

import re
import tempfile
import time
import warnings
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedbench.analysis.trials import stored_trials, troubles
from fedbench.base.errors import ConfigError, UserError
from fedbench.base.settings import Settings, merge, nest
from fedbench.config import TrialConfig
from fedbench.config.identity import versions
from fedbench.indicators import INDICATORS
from fedbench.indicators.base import canonical_indicators
from fedbench.render.report import make_report
from fedbench.simulation.compute import pick_device
from fedbench.simulation.engines import check_device
from fedbench.simulation.federation import check_data
from fedbench.specs.expand import Cell, ScaledStudy
from fedbench.store.execute import execute
from fedbench.store.store import Store

TRAIN, TEST, CLIENTS, PROXY, SERVER_EPOCHS = 200, 300, 5, 20, 14  # sizes of a trial that is tried
FEWEST = 0.6  # the share of clients in its round, at least: three of five
OWN_CODE = re.compile(r"\(.*\.py, line \d+")  # in a warning on something that somebody's own code does

Kind = Hashable


def kind_of(config: TrialConfig) -> Kind:
    """Return what trials have in common that run the same code: all settings that are words, and all indicators."""
    groups = {"data": config.data, "clients": config.clients, "method": config.method}
    plain = {name: group.model_dump(mode="json") for name, group in groups.items()}
    plain["data"].pop("content", None)
    words = [(name, *pair) for name, settings in plain.items() for pair in _words(settings)]
    return config.model, config.bn, tuple(sorted(words)), str(canonical_indicators(config.indicators))


def _words(settings: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the settings that are words, or true or false, by their keys; also those in settings of their own."""
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from ((f"{key}.{inner}", word) for inner, word in _words(value))
        elif isinstance(value, str | bool):
            yield key, str(value)


def uses_own_code(config: TrialConfig) -> bool:
    """Return whether a trial uses something from outside of fedbench."""
    used = canonical_indicators(config.indicators)
    return len(versions(config)) > 1 or any(f"{name} version" in used for name, _ in INDICATORS.items())


def first_of_kinds(trials: Mapping[str, TrialConfig]) -> dict[str, TrialConfig]:
    """Return the first trial of each kind, by its hash."""
    kinds: dict[Kind, str] = {}
    for hash_, config in trials.items():
        kinds.setdefault(kind_of(config), hash_)
    return {hash_: trials[hash_] for hash_ in kinds.values()}


def to_try(study: ScaledStudy, missing: Mapping[str, TrialConfig], everything: bool) -> dict[str, TrialConfig]:
    """Return the trials of a study that are to be tried: the first of each kind of which none is done.

    everything: all of them, instead of those that use code from outside of fedbench.
    """
    kept = {hash_ for hash_ in study.trials if hash_ not in missing}
    known = {kind_of(study.trials[hash_]) for hash_ in kept}
    left = {hash_: config for hash_, config in study.trials.items() if hash_ in missing}
    first = {
        hash_: config for hash_, config in first_of_kinds(left).items() if everything or kind_of(config) not in known
    }
    if everything:
        return first
    own = {hash_: config for hash_, config in first.items() if uses_own_code(config)}
    if not own and not kept and (study.modules or study.study.import_):  # metrics, plots or checks
        return dict(list(first.items())[:1])
    return own


def rehearse(study: ScaledStudy, chosen: Mapping[str, TrialConfig], data_dir: Path | None) -> str:
    """Run a round of each chosen trial on tiny data, and report it like the study; return what went wrong, in words.

    Methods, models and the like, indicators with what they conclude, metrics, plots and checks are all used once.
    """
    small = {kind_of(config): tiny(config, data_dir) for config in chosen.values()}
    cells = []
    for cell in study.cells:
        seed, config = next(iter(cell.trials.items()))
        cells.append(Cell(cell.labels, {seed: small.get(kind_of(config), config)}))
    short = replace(study, cells=cells)
    with tempfile.TemporaryDirectory(prefix="fedbench-try-") as folder, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        store = Store(Path(folder))
        store.prepare()
        for config in small.values():
            execute(config, store, data_dir)
        wrong = [t.sentence for t in troubles(short, stored_trials(short, store)) if t.example.status == "failed"]
        if not wrong:
            make_report(short, store)
        said = [str(warning.message) for warning in caught]
    return "; ".join(dict.fromkeys([*wrong, *(text for text in said if OWN_CODE.search(text))]))


def try_out(study: ScaledStudy, missing: Mapping[str, TrialConfig], data_dir: Path | None, everything: bool) -> str:
    """Run one round of each trial that `to_try` chooses, and return a line with the outcome.

    UserError if one failed.
    """
    chosen, started = to_try(study, missing, everything), time.monotonic()
    if not chosen:
        return ""
    wrong = rehearse(study, chosen, data_dir)
    kinds = f"{len(chosen)} kinds of trials" if len(chosen) > 1 else "1 kind of trial"
    if wrong:
        raise UserError(f"tried {kinds} for one round on tiny data; {wrong}; nothing was run (--no-try runs it anyway)")
    return f"tried {kinds} for one round on tiny data, and the report: all well ({time.monotonic() - started:.0f} s)"


def tiny(config: TrialConfig, data_dir: Path | None) -> TrialConfig:
    """Return a trial of the same kind with one round and as little data as its settings allow, on the CPU."""
    problem: UserError | None = None
    for changes in _reductions(config):
        try:
            small = _on_cpu(TrialConfig(**merge(config.plain(), nest(changes))))
            check_data([small], data_dir)
        except UserError as error:
            problem = error
        else:
            return small
    assert problem is not None
    raise problem


def _reductions(config: TrialConfig) -> Iterator[Settings]:
    """Yield changes that make a trial small, the boldest first: not every partition can do with few samples."""
    few = {"rounds": 1, "data.test_size": min(TEST, config.test_samples)}
    if (getattr(config.method, "epochs", None) or 0) > SERVER_EPOCHS:
        few["method.epochs"] = SERVER_EPOCHS
    proxy: Settings = {"proxy.size": min(PROXY, config.proxy.size), "proxy.pool": None}
    clients: Settings = {
        "clients.count": min(CLIENTS, config.clients.count),
        "clients.participation": max(FEWEST, config.clients.participation),
    }
    yield {**few, **proxy, **clients, "data.train_size": min(TRAIN, config.train_samples)}
    enough = min(max(TRAIN, 10 * config.clients.count), config.train_samples)
    yield {**few, **proxy, "data.train_size": enough}
    yield {"rounds": 1, "data.train_size": enough}
    yield {"rounds": 1}


def _on_cpu(config: TrialConfig) -> TrialConfig:
    """Return the trial on the CPU; where it cannot do what the trial asks for, in plain float32 without captures."""
    here = config.on("cpu")
    try:
        check_device(here, pick_device("cpu"))
    except ConfigError:
        run = here.run.model_copy(update={"engine": "eager"})
        return here.model_copy(update={"run": run, "precision": "float32"})
    return here


def order(trials: Mapping[str, TrialConfig]) -> dict[str, TrialConfig]:
    """Return trials with the first one of each kind in front, so that what cannot work fails early."""
    return {**first_of_kinds(trials), **trials}


class FirstTrials:
    """Watches how the first trial of each kind ends.

    `verdict` says, in words, that it is useless to go on: the first trials of `ENOUGH` different kinds have failed for
    the same reason, and no trial has been done. It is empty before that. works: whether some trial was done before.
    """

    ENOUGH = 3

    def __init__(self, trials: Mapping[str, TrialConfig], names: Mapping[str, str], *, works: bool = False) -> None:
        self.verdict = ""
        self._kinds = {hash_: kind_of(config) for hash_, config in trials.items()}
        self._names = names
        self._first: dict[Kind, tuple[str, str]] = {}  # the name and the reason of the first one, if it failed
        self._works = works

    def ended(self, hash_: str, outcome: str, reason: str) -> None:
        """Take in how a trial ended."""
        self._works |= outcome in ("done", "diverged")
        kind = self._kinds.get(hash_)
        if self._works or outcome != "failed" or kind in self._first:
            return
        self._first[kind] = self._names[hash_], reason
        alike = [name for name, why in self._first.values() if why == reason]
        if len(alike) >= self.ENOUGH:
            self.verdict = f"{'; '.join(alike)}: {reason}"
