"""Search on Ray Tune: Optuna suggests settings, decides which to stop early, and stores what came of them."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import ray

from fedbench.base.errors import ConfigError
from fedbench.base.plugins import described
from fedbench.base.settings import merge
from fedbench.config import TrialConfig
from fedbench.console.progress import LiveLine, SearchProgress
from fedbench.cost.shares import Packing
from fedbench.searches.running import RunningSuggestions
from fedbench.searches.suggestions import Suggestions
from fedbench.simulation.drive import rounds
from fedbench.simulation.engines import CaptureFailed
from fedbench.simulation.lockstep import Lockstep
from fedbench.store.gpu import assigned_device, failed_captures_raised
from fedbench.store.mark import UNCAPTURED
from fedbench.tune.experiment import Experiment, check_alive, common
from fedbench.tune.home import home_of
from fedbench.tune.nodes import Nodes, gpu_share, packing_of
from fedbench.tune.options import RunOptions
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

    hurried: whether the first signal stops at once.
    """

    def __init__(
        self, running: RunningSuggestions, listener: LiveLine, home: Any, packing: Packing, *, hurried: bool
    ) -> None:
        super().__init__(listener, home, packing, running.suggestions.space.space.direction)
        self.running, self.hurried = running, hurried
        self._shares: dict[str, float] = {}  # of a GPU, that suggestions have

    def at_once(self) -> bool:
        """Return whether Ray is stopped with this command: else Tune first ends its workers, which take resources."""
        return self.hurried

    def suggest(self, trial_id: str) -> dict[str, Any]:
        """Return what a worker needs to know of the next suggestion."""
        resources = self.packing.take(trial_id)
        self._shares[trial_id] = resources.get("GPU", 0.0)
        return {**self.running.ask(trial_id), "resources": resources}

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """Keep the score of a round; return whether the suggestion is to be stopped. Tune calls it for every report."""
        return self.running.report(trial_id, result)

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Tell Optuna how a suggestion ended. One whose process died leaves no result, and is put back later."""
        if trial_id in self._shares:  # else Tune calls it again, since storing the outcome has failed
            self.packing.ended(trial_id)
            self.running.end(trial_id, None if error else result, self._shares.pop(trial_id))


def search_arm(
    suggestions: Suggestions,
    options: RunOptions,
    listener: SearchProgress,
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
            packing = packing_of(left, options, share, nodes, ahead=False)
            running = RunningSuggestions(suggestions, sampler, listener, grown=grown)
            experiment = SearchExperiment(running, listener, handle, packing, hurried=nodes.started_here)
            experiment.fit(FederatedSuggestion, left, options, home, nodes)
            check_alive(handle)
            unfit = nodes.check_new()
            for line in unfit:
                listener.say(line)
            tries = max(tries - (not unfit), int(running.again))
            if running.short_of_memory:
                share, grown = min(1.0, 2 * share), True
                listener.say(f"out of GPU memory: suggestions are tried again with {share:g} of a GPU each")
