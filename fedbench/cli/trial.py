"""Running one trial: what the trial command does."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from fedbench.base.errors import ConfigError, UserError
from fedbench.base.settings import dump_yaml, load_yaml, merge, parse_assignments
from fedbench.base.signals import Interrupted
from fedbench.base.text import say
from fedbench.cli.command import DONE, FAILED, command_line, deferred_interrupt
from fedbench.config import TrialConfig, score_rounds
from fedbench.config.resolve import without_obsolete
from fedbench.console import print_warning
from fedbench.console.progress import RunProgress
from fedbench.data.official import check_data_dir
from fedbench.simulation import Callback, Record, Simulation, drive
from fedbench.simulation.checkpoint import Checkpoints, restore, save
from fedbench.simulation.observe import final_tables
from fedbench.store.folder import TrialFolder, stored_config, summary
from fedbench.store.memory import reset_peak_memory
from fedbench.trackers import check_trackers, tracked


def run_trial(options: argparse.Namespace, checkpoint_every: int, started_by: Sequence[str]) -> int:
    """Show the settings, or run what is left of the run, then print the score; returns the exit code.

    started_by: the words that started this command, without its arguments.
    """
    config = read_config(options)
    if options.show:
        say(f"{dump_yaml(config.plain())}hash: {config.hash}")
        return DONE
    check_trackers(options.track)
    folder = TrialFolder(options.out, config, save_model=options.save_model) if options.out else None
    if folder and (finished := check_folder(folder, config, options.resume)):
        if options.save_model and not (folder.path / "model.pt").exists():
            raise UserError(f"--save-model: the run in {folder.path} has ended without; run it again in another folder")
        say(f"this run has ended already: {closing_line(finished, config)}")
        return exit_code(finished)
    check_data_dir(options.data_dir)
    simulation = Simulation(config, options.data_dir)
    reset_peak_memory(simulation.device)
    if folder is None:
        return _run(simulation, None, [], options, started_by)
    folder.prepare()
    if options.resume:
        _resume(simulation, folder)
    checkpoints = Checkpoints(folder.checkpoints, rounds=checkpoint_every)
    with folder, tracked(options.track, config, options.out, print_warning) as trackers:
        return _run(simulation, folder, [folder, *trackers, checkpoints], options, started_by)


def read_config(options: argparse.Namespace) -> TrialConfig:
    """The config that the options name; a bare --resume takes the stored one."""
    if options.resume and not options.config and not options.set and (options.out / "config.yaml").is_file():
        return stored_config(options.out)
    changes = parse_assignments(options.set)
    settings = without_obsolete(load_yaml(Path(options.config))) if options.config else {}
    try:
        return TrialConfig(**merge(settings, changes))
    except ConfigError as error:
        if not settings or changes:  # else it is the file that is wrong
            raise
        raise ConfigError(f"{options.config}: {error}") from None


def check_folder(folder: TrialFolder, config: TrialConfig, resume: bool) -> dict[str, Any] | None:
    """Refuse a folder that holds something else; the summary of a run that has ended there, else None."""
    if not folder.occupied:
        if resume:
            raise UserError(f"--out {folder.path}: holds no run to resume; leave out --resume to start one there")
        return None
    if not folder.path.is_dir():
        raise UserError(f"--out {folder.path}: is a file; name a folder")
    if not resume:
        raise UserError(f"--out {folder.path}: not empty; add --resume to go on with its run, or name another folder")
    if not (folder.path / "config.yaml").is_file():
        raise UserError(f"--out {folder.path}: holds no run to resume (no config.yaml); name another folder")
    ended = folder.stored_summary()
    stored = ended["hash"] if ended else stored_config(folder.path).hash
    if stored != config.hash:
        raise UserError(
            f"--out {folder.path}: holds a run of another config or version ({stored[:12]}, not {config.hash[:12]}); "
            "resume it with its own settings or name another folder"
        )
    return ended


def _resume(simulation: Simulation, folder: TrialFolder) -> None:
    """Go on from the newest valid checkpoint, and say so."""
    for complaint in restore(simulation, folder.checkpoints):
        print_warning(complaint)
    done = simulation.state.round
    say(f"resumed after round {done}" if done else f"no checkpoint in {folder.path}: starting from round 1")


def _run(
    simulation: Simulation,
    folder: TrialFolder | None,
    listeners: list[Callback[Simulation, Record]],
    options: argparse.Namespace,
    started_by: Sequence[str],
) -> int:
    """Run what is left, then print the score."""
    config = simulation.config
    with (
        deferred_interrupt("finishing this round; press Ctrl-C again to stop at once") as interrupted,
        RunProgress(config.rounds, Console()) as progress,
    ):
        drive(simulation, [*listeners, progress], stop=interrupted)
    if not simulation.done:
        _say_stopped(simulation, folder, options, started_by)
        return Interrupted(interrupted()).code
    content = folder.summary if folder else _concluded(simulation)
    say(closing_line(content, config))
    return exit_code(content)


def _concluded(simulation: Simulation) -> dict[str, Any]:
    """The summary of a run that is not kept; what the final model shows is made, and so checked, all the same."""
    content = summary(simulation)
    if content["status"] == "done":
        final_tables(simulation)
    return content


def _say_stopped(
    simulation: Simulation, folder: TrialFolder | None, options: argparse.Namespace, started_by: Sequence[str]
) -> None:
    """After Ctrl-C: keep what there is and say how to go on."""
    after = f"interrupted after round {simulation.state.round} of {simulation.config.rounds}"
    if folder is None:
        say(f"{after}; without --out nothing was kept", sys.stderr)
        return
    if simulation.state.round:
        save(simulation, folder.checkpoints)
    command = [*started_by, "--out", str(folder.path), "--resume"]
    command += ["--data-dir", str(options.data_dir)] if options.data_dir else []
    command += [part for module in options.modules for part in ("--import", module)]
    command += [part for tracker in options.track for part in ("--track", tracker)]
    if options.checkpoint_every is not None:
        command += ["--checkpoint-every", str(options.checkpoint_every)]
    command += ["--save-model"] if options.save_model else []
    say(f"{after}; go on with: {command_line(command)}", sys.stderr)


def closing_line(content: dict[str, Any], config: TrialConfig) -> str:
    """The last line: what was run, and the final score."""
    name = f"{config.method.name}, {config.model} on {config.data.name}, seed {config.seed}"
    if content["status"] == "diverged":
        return f"{name}: diverged ({content['reason']})"
    final, best = 100 * content["final_accuracy"], 100 * content["best_accuracy"]
    mean = f"mean of the last {score_rounds(config.rounds)} rounds"
    last = f"last round {100 * content['last_accuracy']:.2f} %"
    return f"{name}: final accuracy {final:.2f} % ({mean}; best {best:.2f} %, {last})"


def exit_code(content: dict[str, Any]) -> int:
    """0 for a finished run, 1 for one that diverged."""
    return FAILED if content["status"] == "diverged" else DONE
