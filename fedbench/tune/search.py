"""Searching on Ray Tune: OptunaSearch suggests, ASHA stops early, and Optuna's storage keeps what came of it."""

import logging
import os
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import optuna

# First, since it sets Ray's environment before Ray is imported.
from fedbench.tune.clusters import gpu_share, on_ray  # isort: skip
import ray
from ray import tune
from ray.tune.logger import JsonLoggerCallback
from ray.tune.schedulers import ASHAScheduler
from ray.tune.search.optuna import OptunaSearch

from fedbench.base.errors import ConfigError
from fedbench.base.settings import Settings, merge
from fedbench.config import TrialConfig
from fedbench.searches.suggestions import Suggestions
from fedbench.simulation.drive import rounds
from fedbench.simulation.lockstep import Lockstep, Step
from fedbench.specs.parameters import fill
from fedbench.tune.away import OtherVersionError, settle
from fedbench.tune.home import Home
from fedbench.tune.options import RunOptions, SearchListener
from fedbench.tune.pulse import Pulse
from fedbench.tune.shares import could_grow
from fedbench.tune.trainable import assigned_device, resources, surroundings
from fedbench.tune.watch import log, worker_name

os.environ.setdefault("TUNE_DISABLE_STRICT_METRIC_CHECKING", "1")  # a diverged suggestion has no score to report

REDUCTION = 3  # ASHA lets a third go on at every rung
EARLIEST = 5  # rounds before which a score says little about the end


class FederatedSuggestion(tune.Trainable):
    """One suggestion on a worker: a round of all its seeds a step. A dead process starts it again from round 1.

    Ray's dashboard shows the class, its repr, and what it prints as its log.
    """

    def setup(self, config: dict[str, Any]) -> None:
        """Take in a suggestion; the runs are built with the first step."""
        self._payload: dict[str, Any] = {**config["search"], **config["suggestion"]}
        self._rounds: Iterator[Step] | None = None
        self._round = 0
        self._ended = False
        self._log("starts")

    @classmethod
    def default_resource_request(cls, config: dict[str, Any]) -> tune.PlacementGroupFactory:
        """What a suggestion takes of the cluster."""
        return resources(config["search"])

    def __repr__(self) -> str:
        return worker_name(self._payload["command"])

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Take in the next suggestion, in the same process."""
        self.cleanup()
        self.setup(new_config)
        return True

    def cleanup(self) -> None:
        """Whatever comes next here, this suggestion is over."""
        if not self._ended:
            self._log(f"stopped after round {self._round}")

    def _log(self, text: str) -> None:
        """A line on this suggestion in the worker's log, which the dashboard shows."""
        log(f"{self._payload['method']}, suggestion {self._payload['number']}: {text}")

    def step(self) -> dict[str, Any]:
        """One round; the result says how it stands. An exception is an outcome: trying at once would not help."""
        try:
            return self._step()
        except OtherVersionError:  # another node may be fit: this one counts as dead
            raise
        except ConfigError as error:
            return self._end("impossible", str(error))
        except Exception as error:
            return self._end("failed", " ".join(f"{type(error).__name__}: {error}".split())[:500])

    def _step(self) -> dict[str, Any]:
        if self._rounds is None:
            self._rounds = rounds(build(self._payload))
        step = next(self._rounds)
        self._round = step.round
        if step.diverged:
            return self._end("diverged", step.diverged)
        score = {} if step.score is None else {"score": step.score}
        self._log(f"round {step.round}" + (f", score {step.score:.4g}" if score else ""))
        if step.last:
            return {**self._end("done", ""), **score}
        return {"round": step.round, "status": "running", "reason": "", **score}

    def _end(self, status: str, reason: str) -> dict[str, Any]:
        self._ended = True
        self._log(status + (f" ({reason})" if reason else ""))
        return {"round": self._round, "status": status, "reason": reason, "done": True}


def build(payload: dict[str, Any]) -> Lockstep:
    """The runs of a suggestion, from plain data (see `search_arm`)."""
    settle(payload)
    configs = []
    for settings in payload["configs"]:
        config = TrialConfig(**merge(settings, {"run": {"threads": payload["threads"]}}))
        configs.append(config.on(assigned_device(payload["gpus"])) if config.run.device == "auto" else config)
    data_dir = Path(payload["data_dir"]) if payload["data_dir"] else None
    return Lockstep(configs, payload["metric"], data_dir, payload["score_rounds"])


class StoredOptunaSearch(OptunaSearch):
    """OptunaSearch that knows how a suggestion ended, and keeps it in the storage.

    OptunaSearch itself tells a stopped suggestion as complete, with the score of a low round. This one tells it as
    pruned, so that Optuna's best, plots and samplers all know the difference. With a `share` of a GPU below 1,
    one that ran out of memory is put back like one whose process died: `short_of_memory` then says so.
    """

    def __init__(
        self, suggestions: Suggestions, sampler: optuna.samplers.BaseSampler, listener: SearchListener, share: float
    ) -> None:
        self.suggestions, self.listener, self.share = suggestions, listener, share
        self.short_of_memory = False
        self._reported: dict[str, int] = {}
        suggestions.study.sampler = sampler
        super().__init__(
            space=self._define,
            metric="score",
            mode=suggestions.space.space.direction,
            sampler=sampler,
            study_name=suggestions.study.study_name,
            storage=suggestions.storage,
        )

    def _define(self, trial: optuna.Trial) -> Settings:
        """Optuna's define-by-run: conditions are decided as the values come. Returns what the worker needs."""
        arm = self.suggestions.arm
        settings = fill(arm.fixed, arm.parameters, lambda parameter: parameter.suggest(trial))
        configs = self.suggestions.space.suggestion_settings(settings)
        return {"suggestion": {"number": trial.number, "configs": configs}}

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """A round: kept as an intermediate value (a restarted suggestion reports its rounds again)."""
        trial = self._ot_trials[trial_id]
        if "score" in result and result["round"] > self._reported.get(trial_id, 0):
            trial.report(result["score"], result["round"])
            self._reported[trial_id] = result["round"]
        self.listener.update(trial.number, result["round"], result.get("score"))

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """The end. A process that died too often leaves no result: its suggestion is put back later."""
        trial = self._ot_trials[trial_id]
        if error or not result or "status" not in result:
            self.suggestions.study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
            self.listener.ended(trial.number, trial.params, "died", None, "its error is in the ray folder")
            return
        if result["status"] == "failed" and could_grow(self.share, result["reason"]):
            self.short_of_memory = True
            self.suggestions.study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
            self.listener.ended(trial.number, trial.params, "died", None, result["reason"])
            return
        self.on_trial_result(trial_id, result)
        outcome = "stopped" if result["status"] == "running" else result["status"]
        score, reason = result.get("score"), result["reason"]
        ended = {"outcome": outcome, "score": score, "rounds": result["round"], "reason": reason}
        self.suggestions.record(trial, {**ended, "seconds": result["time_total_s"]})
        self.listener.ended(trial.number, trial.params, outcome, score, reason)

    def save(self, checkpoint_path: str) -> None:
        """Nothing: the storage has it all."""

    def __getstate__(self) -> dict[str, Any]:
        """Tune pickles its search algorithm into the (disposable) experiment folder; storage and display stay here."""
        return {}


def first_rung(rounds: int) -> int:
    """The round of ASHA's first rung: a ninth of all (the second is then a third), or a third where that is early."""
    ninth = -(-rounds // REDUCTION**2)
    return ninth if ninth >= EARLIEST else -(-rounds // REDUCTION)


def asha(suggestions: Suggestions) -> Any:
    """ASHA that remembers the rounds of earlier commands, so that a resumed search is as strict as one in one go."""
    rounds = suggestions.space.length(suggestions.arm)
    scheduler: Any = ASHAScheduler(
        time_attr="round",
        metric="score",
        mode=suggestions.space.space.direction,
        max_t=rounds,
        grace_period=first_rung(rounds),
        reduction_factor=REDUCTION,
    )
    for trial in suggestions.settled:
        past = SimpleNamespace(trial_id=f"earlier-{trial.number}")
        scheduler.on_trial_add(None, past)
        for round_, score in sorted(trial.intermediate_values.items()):
            scheduler.on_trial_result(None, past, {"round": round_, "score": score})
        scheduler.on_trial_remove(None, past)
    return scheduler


def search_arm(
    suggestions: Suggestions, options: RunOptions, *, sampler: str, stop_early: bool, listener: SearchListener
) -> None:
    """Run what the budget has left; returns when every suggestion has ended, or its process has died too often.

    Suggestions whose process died are run again once the others have ended; so are, with twice the share of a GPU,
    those that ran out of its memory.
    Ctrl-C comes through as KeyboardInterrupt; the next command puts back what was running.
    """

    def work(pulse: Pulse) -> None:
        logging.getLogger("ray.tune").setLevel(logging.CRITICAL)
        share, grown = gpu_share(options, listener.say), False
        listener.say("starting workers")
        tries = options.max_failures + 1
        with Home(options, listener.say, idle=pulse.here) as home:
            while tries:
                suggestions.reclaim(crashed=False)
                left = suggestions.left - listener.crashed
                if left <= 0:
                    return
                scheduler = asha(suggestions) if stop_early else None
                most = 1.0 if grown else share
                searcher = StoredOptunaSearch(suggestions, suggestions.sampler(sampler), listener, most)
                _fit(suggestions, left, options, share, searcher, scheduler, [home, pulse], home.about())
                unfit = home.late()
                for line in unfit:
                    listener.say(line)
                tries = max(tries - (not unfit), int(searcher.short_of_memory))
                if searcher.short_of_memory:
                    share, grown = min(1.0, 2 * share), True
                    listener.say(f"out of GPU memory: suggestions are tried again with {share:g} of a GPU each")

    on_ray(options, work, listener.say)


def _fit(
    suggestions: Suggestions,
    count: int,
    options: RunOptions,
    gpus: float,
    searcher: StoredOptunaSearch,
    scheduler: Any,
    callbacks: list[tune.Callback],
    home: dict[str, Any] | None,
) -> None:
    have = ray.cluster_resources()
    tuner = tune.Tuner(
        FederatedSuggestion,
        param_space={"search": {**_scoring(suggestions), **surroundings(options, gpus, home)}},
        tune_config=tune.TuneConfig(
            search_alg=searcher,
            scheduler=scheduler,
            num_samples=count,
            reuse_actors=True,
            # No more are asked for than run at a time, since each profits from those that have ended.
            max_concurrent_trials=options.slots(have.get("CPU", 1), have.get("GPU", 0), gpus),
            trial_name_creator=lambda trial: f"{suggestions.arm.slug}-{trial.trial_id}",
            trial_dirname_creator=lambda trial: f"{suggestions.arm.slug}-{trial.trial_id}",
        ),
        run_config=tune.RunConfig(
            name=f"{options.study}-{suggestions.arm.slug}-{time.strftime('%Y%m%d-%H%M%S')}",
            storage_path=str((options.out / "ray").resolve()),
            failure_config=tune.FailureConfig(max_failures=0),  # see search_arm
            checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
            callbacks=[*callbacks, JsonLoggerCallback()],
            verbose=0,
        ),
    )
    tuner.fit()


def _scoring(suggestions: Suggestions) -> dict[str, Any]:
    """Whose suggestions they are, and how they are scored."""
    space = suggestions.space.space
    return {"method": suggestions.arm.label, "metric": space.metric, "score_rounds": space.score.rounds}
