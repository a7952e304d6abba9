"""Search on Ray Tune: Optuna suggests settings, decides which to stop early, and stores what came of them."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import optuna
import ray

from fedbench.base.errors import ConfigError
from fedbench.base.plugins import described
from fedbench.base.settings import merge
from fedbench.config import TrialConfig
from fedbench.cost.shares import Packing, could_grow
from fedbench.searches.suggestions import Suggestions
from fedbench.simulation.drive import rounds
from fedbench.simulation.engines import CaptureFailed
from fedbench.simulation.lockstep import Lockstep
from fedbench.store.gpu import assigned_device, failed_captures_raised
from fedbench.tune.experiment import Experiment, check_alive, common
from fedbench.tune.home import home_of
from fedbench.tune.nodes import Nodes, gpu_share, packing_of
from fedbench.tune.options import UNCAPTURED, RunOptions, SearchListener
from fedbench.tune.watch import log
from fedbench.tune.worker import OtherVersionError, Result, Worker, prepare, run_settings


class FederatedSuggestion(Worker):
    """A worker that runs the suggestions of a search: all seeds of one in lockstep, with a report after every round.

    A suggestion whose process died is run again from round 1.
    """

    def reports(self, home: Any, common: Mapping[str, Any]) -> Iterator[Result]:
        """Run the suggestion of the config. An exception is an outcome, since trying again at once would not help."""
        self._log("starts")
        round_, status, reason, score = 0, "done", "", dict[str, float]()
        try:
            with failed_captures_raised():
                for step in rounds(self._runs(home, common)):
                    round_, score = step.round, {} if step.score is None else {"score": step.score}
                    if step.diverged:
                        status, reason = "diverged", step.diverged
                        break
                    self._log(f"round {round_}" + (f", score {step.score:.4g}" if score else ""))
                    if not step.last:
                        yield {"round": round_, "status": "running", "reason": "", **score}
        except GeneratorExit:
            self._log(f"stopped after round {round_}")
            raise
        except OtherVersionError:  # counts as a dead process: another node may run it
            raise
        except CaptureFailed as error:
            ray.get(home.uncaptured.remote(self.config["model"]))
            status, reason, score = UNCAPTURED, str(error), {}
        except ConfigError as error:
            status, reason, score = "impossible", str(error), {}
        except Exception as error:
            status, reason, score = "failed", described(error), {}
        self._log(status + (f" ({reason})" if reason else ""))
        yield {"round": round_, "status": status, "reason": reason, **score, "done": True}

    def _runs(self, home: Any, common: Mapping[str, Any]) -> Lockstep:
        """Return the runs of the suggestion, one for each seed."""
        prepare(home, common)
        configs, share = [], self.config["resources"].get("GPU", 0.0)
        for settings in self.config["runs"]:
            config = TrialConfig(**merge(settings, {"run": run_settings(self.config["model"], common)}))
            if config.run.device == "auto":
                config = config.on(assigned_device(ray.get_gpu_ids(), share, common["gpu_context"]))
            configs.append(config)
        data_dir = Path(common["data_dir"]) if common["data_dir"] else None
        return Lockstep(configs, self.config["metric"], data_dir, self.config["score_rounds"])

    def _log(self, text: str) -> None:
        """Write a line on the suggestion to the log of this worker, which Ray's dashboard shows."""
        log(f"{self.config['method']}, suggestion {self.config['number']}: {text}")


class SearchExperiment(Experiment):
    """Asks Optuna for suggestions and tells it how they ended; stops those that its pruner gives up.

    A suggestion that is still running when everything is stopped is not told, so that the next command runs it again.

    sampler: the kind of Optuna's sampler; hurried: whether the first signal stops at once; grown: whether suggestions
    have more of a GPU than at first. If not, one that runs out of memory is put back like one whose process died, and
    `short_of_memory` says so; so is one whose steps cannot be captured, and `uncaptured` says so.
    """

    listener: SearchListener

    def __init__(
        self,
        suggestions: Suggestions,
        sampler: str,
        listener: SearchListener,
        home: Any,
        packing: Packing,
        *,
        hurried: bool,
        grown: bool,
    ) -> None:
        super().__init__(listener, home, packing, suggestions.space.space.direction)
        self.suggestions, self.sampler, self.hurried, self.grown = suggestions, sampler, hurried, grown
        self.short_of_memory = self.uncaptured = False
        self._running: dict[str, tuple[optuna.Trial, float]] = {}  # by Tune's name, with the share of a GPU
        self._ends: dict[str, dict[str, Any]] = {}  # the last reports of those that have ended

    def at_once(self) -> bool:
        """Return whether Ray is stopped with this command: else Tune first ends its workers, which take resources."""
        return self.hurried

    def suggest(self, trial_id: str) -> dict[str, Any]:
        """Return what a worker needs to know of the next suggestion."""
        trial, config = self.suggestions.ask(self.sampler)
        resources = self.packing.take(trial_id)
        self._running[trial_id] = trial, resources.get("GPU", 0.0)
        return {**config, "resources": resources}

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """Keep the score of a round; return whether the suggestion is to be stopped. Tune calls it for every report."""
        (trial, _), score = self._running[trial_id], result.get("score")
        if score is not None:
            trial.report(score, result["round"])
        self.listener.update(trial.number, result["round"], score)
        if result["status"] != "running":
            self._ends[trial_id] = result
        return result["status"] == "running" and score is not None and trial.should_prune()

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Tell Optuna how a suggestion ended. One whose process died leaves no result, and is put back later."""
        if trial_id not in self._running:  # Tune calls it again if storing the outcome has failed
            return
        self.packing.ended(trial_id)
        (trial, share), result = self._running.pop(trial_id), self._ends.pop(trial_id, None if error else result)
        if not result or "status" not in result:
            self._put_back(trial, "its error is in the ray folder")
        elif result["status"] == "failed" and not self.grown and could_grow(share, result["reason"]):
            self.short_of_memory = True
            self._put_back(trial, result["reason"])
        elif result["status"] == UNCAPTURED:
            self.uncaptured = True
            self._put_back(trial, result["reason"])
        else:
            outcome = "stopped" if result["status"] == "running" else result["status"]
            score, reason = result.get("score"), result["reason"]
            ended = {"outcome": outcome, "score": score, "rounds": result["round"], "reason": reason}
            self.suggestions.record(trial, {**ended, "seconds": result["time_total_s"]})
            self.listener.ended(trial.number, trial.params, outcome, score, reason)

    def _put_back(self, trial: optuna.Trial, reason: str) -> None:
        self.suggestions.fail(trial)
        self.listener.ended(trial.number, trial.params, "died", None, reason)


def search_arm(
    suggestions: Suggestions,
    options: RunOptions,
    listener: SearchListener,
    nodes: Nodes,
    *,
    sampler: str,
    stop_early: bool,
) -> None:
    """Run what the budget has left; return when every suggestion has ended, or its process has died too often.

    Suggestions whose process died are run again once the others have ended; so are, with twice the share of a GPU,
    those that ran out of its memory. Ctrl-C raises KeyboardInterrupt; the next command runs again what was running.
    """
    share, grown, tries = gpu_share(options, listener.say), False, options.max_failures + 1
    suggestions.study.pruner = suggestions.pruner(stop_early)
    listener.say("starting workers")
    with home_of(options.out, common(options, nodes)) as (home, handle):
        while tries:
            suggestions.reclaim(crashed=False)
            if (left := suggestions.left - listener.crashed) <= 0:
                return
            # No more are asked for than run at a time, since each profits from those that have ended.
            packing, hurried = packing_of(left, options, share, nodes, ahead=False), nodes.started_here
            experiment = SearchExperiment(suggestions, sampler, listener, handle, packing, hurried=hurried, grown=grown)
            experiment.fit(FederatedSuggestion, left, options, home, nodes)
            check_alive(handle)
            unfit = nodes.check_new()
            for line in unfit:
                listener.say(line)
            tries = max(tries - (not unfit), int(experiment.short_of_memory or experiment.uncaptured))
            if experiment.short_of_memory:
                share, grown = min(1.0, 2 * share), True
                listener.say(f"out of GPU memory: suggestions are tried again with {share:g} of a GPU each")
