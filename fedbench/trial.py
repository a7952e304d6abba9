"""One federated run from the command line: python -m fedbench.trial --set method.name=fedavg --set data.alpha=0.1."""

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from fedbench.base.errors import UserError
from fedbench.base.plugins import import_modules
from fedbench.base.settings import dump_yaml, load_yaml, merge, parse_assignments
from fedbench.config.trial import LAST_ROUNDS, TrialConfig
from fedbench.simulation import Simulation, checkpoint
from fedbench.store.environment import reset_peak_memory
from fedbench.store.folder import TrialFolder, summary
from fedbench.terminal.command import DONE, FAILED, INTERRUPTED, Parser, deferred_interrupt, run
from fedbench.terminal.progress import RunProgress

CHECKPOINT_EVERY = 10


def parser() -> argparse.ArgumentParser:
    """The options of this command."""
    options = Parser(prog="python -m fedbench.trial", description="Run one federated run.")
    add = options.add_argument
    add("--set", action="append", default=[], metavar="KEY=VALUE", help="any setting, such as data.alpha=0.1")
    add("--config", type=Path, metavar="FILE", help="settings from a YAML file; --set wins over it")
    add(
        "--import", action="append", default=[], metavar="MODULE", dest="modules", help="a module with your own methods"
    )
    add("--out", type=Path, metavar="DIR", help="folder for results; without it nothing is written")
    add("--data-dir", type=Path, metavar="DIR", help="where data sets are (default: $FEDBENCH_DATA, then a cache)")
    add("--checkpoint-every", type=int, metavar="N", help=f"rounds between checkpoints ({CHECKPOINT_EVERY}; 0: none)")
    add("--resume", action="store_true", help="go on with the run in --out")
    add("--save-model", action="store_true", help="write the final model to model.pt in --out")
    add("--show", action="store_true", help="print the resolved settings and their hash, and stop")
    return options


def main(arguments: Sequence[str]) -> int:
    """Run it; returns the exit code."""
    options = parser().parse_args(arguments)
    check_options(options)
    import_modules(options.modules)
    config = read_config(options)
    if options.show:
        print(f"{dump_yaml(config.model_dump(mode='json'))}hash: {config.hash}")
        return DONE
    folder = TrialFolder(options.out, config) if options.out else None
    if folder and (finished := check_folder(folder, config, options.resume)):
        if options.save_model and not (folder.path / "model.pt").exists():
            raise UserError(f"--save-model: the run in {folder.path} has ended without; run it again in another folder")
        print(f"this run has ended already: {closing_line(finished, config)}")
        return exit_code(finished)
    simulation = Simulation(config, options.data_dir)
    reset_peak_memory(simulation.device)
    if folder is None:
        return run_rounds(simulation, None, options)
    if options.resume:
        for complaint in checkpoint.restore(simulation, folder.checkpoints):
            print(f"warning: {complaint}", file=sys.stderr)
        done = simulation.state.round
        print(f"resumed after round {done}" if done else f"no checkpoint in {folder.path}: starting from round 1")
    with folder:
        folder.open(simulation)
        return run_rounds(simulation, folder, options)


def check_options(options: argparse.Namespace) -> None:
    """Options that need each other."""
    if options.checkpoint_every is not None and options.checkpoint_every < 0:
        raise UserError(f"--checkpoint-every {options.checkpoint_every}: must be a whole number at least 0")
    for name, given in (
        ("--resume", options.resume),
        ("--save-model", options.save_model),
        ("--checkpoint-every", options.checkpoint_every is not None),
    ):
        if given and not options.out:
            raise UserError(f"{name} needs --out DIR")


def read_config(options: argparse.Namespace) -> TrialConfig:
    """The config that the options name; a bare --resume takes the stored one."""
    if options.resume and not options.config and not options.set and (options.out / "config.yaml").is_file():
        return stored_config(options.out)
    settings = load_yaml(options.config) if options.config else {}
    return TrialConfig(**merge(settings, parse_assignments(options.set)))


def stored_config(folder: Path) -> TrialConfig:
    """The config of the run in a folder."""
    settings = load_yaml(folder / "config.yaml")
    if not settings:
        raise UserError(f"{folder / 'config.yaml'}: empty; name the run's settings with --config or --set")
    return TrialConfig(**settings)


def check_folder(folder: TrialFolder, config: TrialConfig, resume: bool) -> dict[str, Any] | None:
    """Refuse a folder that holds something else; the summary of a run that has ended there, else None."""
    if not folder.occupied:
        return None
    if not folder.path.is_dir():
        raise UserError(f"--out {folder.path}: is a file; name a folder")
    if not resume:
        raise UserError(f"--out {folder.path}: not empty; add --resume to go on with its run, or name another folder")
    if not (folder.path / "config.yaml").is_file():
        raise UserError(f"--out {folder.path}: holds no run to resume (no config.yaml); name another folder")
    summary = folder.stored_summary()
    stored = summary["hash"] if summary else stored_config(folder.path).hash
    if stored != config.hash:
        raise UserError(
            f"--out {folder.path}: holds a run of another config or version ({stored[:12]}, not {config.hash[:12]}); "
            "resume it with its own settings or name another folder"
        )
    return summary


def run_rounds(simulation: Simulation, folder: TrialFolder | None, options: argparse.Namespace) -> int:
    """Run what is left, then write and print the score."""
    config, state = simulation.config, simulation.state
    every = CHECKPOINT_EVERY if options.checkpoint_every is None else options.checkpoint_every
    notice = "finishing this round; press Ctrl-C again to stop at once"
    with (
        deferred_interrupt(notice) as interrupted,
        RunProgress(config.rounds, state.round, Console()) as progress,
    ):
        while not simulation.done and not interrupted():
            record = simulation.step()
            progress.show(record)
            if folder:
                folder.add([record])
                if every and record.round % every == 0 and not simulation.done:
                    checkpoint.save(simulation, folder.checkpoints)
    if not simulation.done:
        return stop_early(simulation, folder, options)
    content = folder.finish(simulation, options.save_model) if folder else summary(simulation)
    print(closing_line(content, config))
    return exit_code(content)


def stop_early(simulation: Simulation, folder: TrialFolder | None, options: argparse.Namespace) -> int:
    """After Ctrl-C: keep what there is and say how to go on."""
    after = f"interrupted after round {simulation.state.round} of {simulation.config.rounds}"
    if folder is None:
        print(f"{after}; without --out nothing was kept", file=sys.stderr)
        return INTERRUPTED
    if simulation.state.round:
        checkpoint.save(simulation, folder.checkpoints)
    command = ["python", "-m", "fedbench.trial", "--out", str(folder.path), "--resume"]
    command += ["--data-dir", str(options.data_dir)] if options.data_dir else []
    command += [part for module in options.modules for part in ("--import", module)]
    if options.checkpoint_every is not None:
        command += ["--checkpoint-every", str(options.checkpoint_every)]
    command += ["--save-model"] if options.save_model else []
    print(f"{after}; go on with: {shlex.join(command)}", file=sys.stderr)
    return INTERRUPTED


def closing_line(content: dict[str, Any], config: TrialConfig) -> str:
    """The last line: what was run, and the final score."""
    name = f"{config.method.name}, {config.model} on {config.data.name}, seed {config.seed}"
    if content["status"] == "diverged":
        return f"{name}: diverged ({content['reason']})"
    final, best = 100 * content["final_accuracy"], 100 * content["best_accuracy"]
    mean = f"mean of the last {min(LAST_ROUNDS, config.rounds)} rounds"
    last = f"last round {100 * content['last_accuracy']:.2f} %"
    return f"{name}: final accuracy {final:.2f} % ({mean}; best {best:.2f} %, {last})"


def exit_code(content: dict[str, Any]) -> int:
    """0 for a finished run, 1 for one that diverged."""
    return FAILED if content["status"] == "diverged" else DONE


if __name__ == "__main__":
    run(main)
