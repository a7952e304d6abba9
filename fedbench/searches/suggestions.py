"""The suggestions of a search: an Optuna study for each method, the one truth about what was tried and how it ended."""

import warnings
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import optuna
from optuna.pruners import BasePruner, NopPruner
from optuna.samplers import BaseSampler, CmaEsSampler, RandomSampler, TPESampler
from optuna.storages import RDBStorage
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from fedbench.base.errors import UserError
from fedbench.config import TrialConfig
from fedbench.searches.pruning import SuccessiveHalving
from fedbench.specs.parameters import fill
from fedbench.specs.space import Arm, ScaledSpace

optuna.logging.set_verbosity(optuna.logging.ERROR)

# done: all rounds; stopped: early, by the scheduler; diverged, impossible: settings that do not work; failed: a crash
Outcome = Literal["done", "stopped", "diverged", "impossible", "failed"]
STATES: Mapping[str, TrialState] = {
    "done": TrialState.COMPLETE,
    # Optuna's samplers know what to make of these: worse than a complete one, and the worse the earlier
    "stopped": TrialState.PRUNED,
    "diverged": TrialState.PRUNED,
    "impossible": TrialState.PRUNED,
    "failed": TrialState.FAIL,
}
FINGERPRINT, RESULT, AGAIN = "fedbench_space", "fedbench_result", "fedbench_again"  # names of Optuna's user attributes
EXAMPLE = "sqlite:///search.sqlite3"


def default_url(folder: Path) -> str:
    """Where a search keeps its suggestions unless told otherwise: an SQLite file in its folder."""
    return f"sqlite:///{folder / 'optuna.sqlite3'}"


def open_storage(url: str) -> RDBStorage:
    """Optuna's storage at a URL, or one line that says why there is none."""
    try:
        return RDBStorage(url)
    except (ImportError, SQLAlchemyError, RuntimeError) as error:
        raise UserError(f"--storage {shown_url(url)}: cannot be opened ({str(error).splitlines()[0]})") from error


def parse_url(url: str) -> URL:
    """The parts of a storage's URL."""
    try:
        return make_url(url)
    except (ArgumentError, ValueError) as error:
        raise UserError(f"--storage {url}: not a URL; name one of Optuna's, such as {EXAMPLE}") from error


def shown_url(url: str) -> str:
    """A storage's URL without its password."""
    return parse_url(url).render_as_string(hide_password=True)


def is_there(url: str) -> bool:
    """Whether a storage is there to be opened: an SQLite file would come to be by opening it."""
    parts = parse_url(url)
    return not parts.drivername.startswith("sqlite") or Path(parts.database or "").exists()


@contextmanager
def sole_driver(folder: Path) -> Iterator[None]:
    """Only one command at a time may run a search: to a second one the first one's suggestions would look stale.

    The system drops the lock when the process ends, however it ends.
    """
    import fcntl

    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise UserError(f"{folder}: another command is running this search; wait for it, or stop it") from error
        yield


@dataclass(frozen=True)
class Suggestions:
    """The suggestions of one method of a space."""

    space: ScaledSpace
    arm: Arm
    storage: RDBStorage
    study: optuna.Study

    @classmethod
    def open(cls, storage: RDBStorage, space: ScaledSpace, arm: Arm) -> "Suggestions":
        """The method's study in a storage, made if it is not there; another space under its name is an error."""
        name, fingerprint = space.study_name(arm), space.fingerprint(arm)
        mode = StudyDirection.MAXIMIZE if space.space.direction == "max" else StudyDirection.MINIMIZE
        if is_known(storage, space, arm):
            check_fingerprint(name, storage, fingerprint)
        study = optuna.create_study(storage=storage, study_name=name, direction=mode, load_if_exists=True)
        study.set_user_attr(FINGERPRINT, fingerprint)
        default = arm.default(space.suggestion(arm.fixed)[0])
        if default and not study.trials:  # a sound start: what is found has been held against the default
            study.enqueue_trial(default)
        return cls(space, arm, storage, study)

    @property
    def trials(self) -> list[FrozenTrial]:
        """All that Optuna has, in the order in which it was suggested."""
        return self.study.get_trials(deepcopy=False)

    @property
    def settled(self) -> list[FrozenTrial]:
        """What counts towards the budget: every suggestion with an outcome other than a crash."""
        return [t for t in self.trials if t.state.is_finished() and outcome(t) not in (None, "failed")]

    @property
    def ended(self) -> list[FrozenTrial]:
        """Every suggestion with an outcome that was not put back and run again."""
        again = {trial.user_attrs.get(AGAIN) for trial in self.trials}
        return [trial for trial in self.trials if outcome(trial) and trial.number not in again]

    @property
    def left(self) -> int:
        """How many suggestions the budget has left."""
        return max(0, self.space.trials - len(self.settled))

    @property
    def best(self) -> FrozenTrial | None:
        """The best of those that ran all rounds."""
        full = [trial for trial in self.settled if outcome(trial) == "done"]
        sign = 1 if self.space.space.direction == "max" else -1
        return max(full, key=lambda trial: sign * (trial.value or 0.0), default=None)

    @property
    def rounds_run(self) -> int:
        """Rounds that all counted suggestions ran, each with all of its seeds."""
        return sum(trial.user_attrs[RESULT]["rounds"] for trial in self.settled)

    @property
    def rounds_saved(self) -> int:
        """Rounds that suggestions did not run because the scheduler stopped them."""
        length = self.space.length(self.arm)
        stopped = [trial for trial in self.settled if outcome(trial) == "stopped"]
        return sum(length - trial.user_attrs[RESULT]["rounds"] for trial in stopped)

    def record(self, trial: optuna.Trial, result: dict[str, Any]) -> None:
        """Store how a suggestion ended (outcome, score, rounds, reason, seconds), then tell Optuna.

        In this order: a suggestion that has its result but was not told is told by the next command, not run again.
        """
        trial.set_user_attr(RESULT, result)
        self._tell(trial.number, result)

    def _tell(self, number: int, result: dict[str, Any]) -> None:
        state = STATES[result["outcome"]]
        self.study.tell(number, result["score"] if state is TrialState.COMPLETE else None, state=state)

    def reclaim(self, *, crashed: bool) -> int:
        """Put back what a dead process left unfinished (and what crashed): same parameters, to be suggested first.

        Each is put back once, before its old entry is closed: a kill in between neither loses nor doubles it.
        Returns how many were put back.
        """
        count, trials = 0, self.trials
        taken = {trial.user_attrs.get(AGAIN) for trial in trials}
        for trial in trials:
            if trial.state is TrialState.RUNNING and RESULT in trial.user_attrs:
                self._tell(trial.number, trial.user_attrs[RESULT])
                continue
            gone = trial.state is TrialState.FAIL and (crashed or outcome(trial) is None)
            if (gone or trial.state is TrialState.RUNNING) and trial.number not in taken:
                parameters = {**trial.system_attrs.get("fixed_params", {}), **trial.params}
                self.study.enqueue_trial(parameters, user_attrs={AGAIN: trial.number})
                count += 1
            if trial.state is TrialState.RUNNING:
                self.study.tell(trial.number, state=TrialState.FAIL)
        return count

    def ask(self, kind: str) -> tuple[optuna.Trial, dict[str, Any]]:
        """Return the next suggestion, from a sampler of a kind (see `sampler`), and what a worker needs to run it."""
        self.study.sampler = self.sampler(kind)
        trial = self.study.ask()
        settings = fill(self.arm.fixed, self.arm.parameters, lambda parameter: parameter.suggest(trial))
        runs = self.space.suggestion_settings(settings)
        return trial, {
            "label": f"{self.arm.slug}-{trial.number}",
            "model": TrialConfig(**runs[0]).model,
            "method": self.arm.label,
            "number": trial.number,
            "runs": runs,
            "metric": self.space.space.metric,
            "score_rounds": self.space.score_rounds(self.arm),
        }

    def fail(self, trial: optuna.Trial) -> None:
        """Tell Optuna that a suggestion has no outcome, so that `reclaim` puts it back."""
        self.study.tell(trial.number, state=TrialState.FAIL)

    def pruner(self, stop_early: bool) -> BasePruner:
        """Return what decides which suggestions are stopped early: successive halving, or nothing."""
        return SuccessiveHalving(self.space.length(self.arm)) if stop_early else NopPruner()

    def sampler(self, kind: str) -> BaseSampler:
        """Return a sampler whose seed depends on how many different suggestions there are.

        So the next suggestion is the same whether or not the search was interrupted before it.
        """
        different = sum(AGAIN not in trial.user_attrs for trial in self.trials)
        seed = np.random.SeedSequence([zlib.crc32(self.study.study_name.encode()), different])
        number = int(seed.generate_state(1)[0])
        if kind == "random":
            return RandomSampler(seed=number)
        startup = min(10, max(3, self.space.trials // 4))  # random ones first; fewer where the budget is small
        if kind == "cmaes":
            with warnings.catch_warnings(action="ignore"):
                return CmaEsSampler(seed=number, n_startup_trials=startup, warn_independent_sampling=False)
        return TPESampler(seed=number, n_startup_trials=startup)


def outcome(trial: FrozenTrial) -> Outcome | None:
    """How a suggestion ended, None if nobody knows."""
    result: dict[str, Any] = trial.user_attrs.get(RESULT, {})
    return result.get("outcome")


def check_fingerprint(name: str, storage: RDBStorage, wanted: dict[str, Any]) -> None:
    """Refuse to mix two spaces in one study of Optuna's."""
    study = optuna.load_study(study_name=name, storage=storage)
    stored = study.user_attrs.get(FINGERPRINT, {})
    if stored == wanted or (not stored and not study.trials):
        return
    other = ", ".join(key for key in wanted if stored.get(key) != wanted[key])
    raise UserError(
        f"the storage holds '{name}' of another space (other {other}); name another --out or --storage, "
        "or start over with --fresh"
    )


def check_sampler(kind: str, arm: Arm) -> None:
    """CMA-ES works on two or more numbers that are always there; on less Optuna would quietly draw at random."""
    numeric = [p for p in arm.parameters if p.kind != "choice" and not p.when]
    if kind == "cmaes" and len(numeric) < 2:
        raise UserError(
            f"--sampler cmaes: needs two or more numeric parameters, {arm.label} has {len(numeric)}; use tpe"
        )


def is_known(storage: RDBStorage, space: ScaledSpace, arm: Arm) -> bool:
    """Whether a storage has suggestions for a method."""
    return space.study_name(arm) in optuna.get_all_study_names(storage)


def forget(storage: RDBStorage, space: ScaledSpace) -> None:
    """Remove all suggestions of a space's methods."""
    for arm in space.arms:
        if is_known(storage, space, arm):
            optuna.delete_study(study_name=space.study_name(arm), storage=storage)
