"""A search in pictures, in the style of a study's: its history, the score along each parameter, what matters."""

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from fedbench.render.figures import WIDE, below, canvas, save
from fedbench.render.plots.base import whole_ticks
from fedbench.render.style import COLOURS
from fedbench.searches.suggestions import Suggestions, outcome
from fedbench.simulation.record import columns
from fedbench.specs.names import text_label
from fedbench.specs.parameters import Parameter

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from optuna.trial import FrozenTrial

PANEL = (3.1, 2.4)  # inches

Panel = Callable[["Axes"], Any]  # draws into one panel; what it returns is what a colour bar is for
Trials = Sequence["FrozenTrial"]


def draw_search(search: Suggestions, folder: Path, suffix: str) -> list[Path]:
    """History, slices and importance of all suggestions that ran in full; those of which there are enough."""
    full = [trial for trial in search.settled if outcome(trial) == "done"]
    files: list[Path] = []
    for name, panels, least in (("history", _history, 1), ("slice", _slices, 1), ("importance", _importance, 2)):
        if len(full) < least:
            continue
        try:
            files += _draw(search, panels(search, full), folder / f"{name}{suffix}")
        except Exception as error:  # one picture is no reason to lose the others
            warnings.warn(f"plot '{name}' cannot be drawn ({type(error).__name__}: {error})", stacklevel=2)
    return files


def _draw(search: Suggestions, panels: Sequence[Panel], stem: Path) -> list[Path]:
    """One figure with a panel for each of `panels`."""
    seeds = search.space.suggestion_seeds
    score = f"mean over {len(seeds)} seeds ({', '.join(map(str, seeds))})" if len(seeds) > 1 else f"seed {seeds[0]}"
    with canvas(len(panels), min(WIDE, len(panels)), PANEL, "all") as (figure, axes):
        marks = [panel(ax) for ax, panel in zip(axes.flat, panels, strict=False)]
        if marks[0] is not None:
            figure.colorbar(marks[0], ax=axes, label="suggestion", shrink=0.8)
        figure.suptitle(search.arm.label, fontsize=9)
        below(figure, f"suggestions that ran all rounds; score: {score}")
        return save(figure, axes, stem)


def _score(search: Suggestions) -> tuple[str, float]:
    """What the score is called on an axis, and the factor that makes it that."""
    column = columns()[search.space.space.metric]
    return column.label, column.factor


def _history(search: Suggestions, full: Trials) -> list[Panel]:
    """The score of every suggestion, and the best so far."""
    import numpy as np

    label, factor = _score(search)
    best = np.maximum if search.space.space.direction == "max" else np.minimum

    def draw(ax: "Axes") -> None:
        numbers, scores = [trial.number for trial in full], [factor * (trial.value or 0.0) for trial in full]
        ax.plot(numbers, scores, "o", markersize=4, color=COLOURS[1], label="suggestion")
        ax.plot(numbers, best.accumulate(scores), color=COLOURS[2], drawstyle="steps-post", label="best so far")
        ax.set(xlabel="suggestion", ylabel=label)
        whole_ticks(ax.xaxis)
        ax.legend(frameon=False, fontsize=8)

    return [draw]


def _slices(search: Suggestions, full: Trials) -> list[Panel]:
    """The score along each parameter, of the suggestions that have it."""
    panels = []
    for parameter in search.arm.parameters:
        there = [trial for trial in full if parameter.name in trial.params]
        if there:
            panels.append(_slice(search, parameter, there, full[-1].number))
    return panels


def _slice(search: Suggestions, parameter: Parameter, there: Trials, last: int) -> Panel:
    """One parameter's panel; a dot's colour is when it was suggested."""
    label, factor = _score(search)

    def draw(ax: "Axes") -> Any:
        values = [trial.params[parameter.name] for trial in there]
        if parameter.kind == "choice":
            choices = list(parameter.values)
            ax.set_xticks(range(len(choices)), [text_label(choice) for choice in choices])
            values = [choices.index(value) for value in values]
            ax.margins(x=0.2)
        elif parameter.kind == "loguniform":
            _log_axis(ax, *cast(tuple[float, float], parameter.values))
        scores, numbers = [factor * (trial.value or 0.0) for trial in there], [trial.number for trial in there]
        dots = ax.scatter(values, scores, 18, numbers, cmap="viridis_r", vmin=0, vmax=max(1, last))
        ax.set(xlabel=parameter.name, ylabel=label)
        return dots

    return draw


def _log_axis(ax: "Axes", low: float, high: float) -> None:
    """A logarithmic x axis over a range, with plain numbers that do not run into each other."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    ax.set_xscale("log")
    ax.set_xlim(low / 1.2, high * 1.2)
    ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 100 * low else (1,)))
    ax.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    ax.xaxis.set_minor_formatter(NullFormatter())


def _importance(search: Suggestions, full: Trials) -> list[Panel]:
    """What share of the differences in score each parameter accounts for, by Optuna's estimate."""
    import optuna

    with warnings.catch_warnings(action="ignore"):  # that it is an experimental part of Optuna
        shares = optuna.importance.get_param_importances(search.study)

    def draw(ax: "Axes") -> None:
        names = list(reversed(shares))
        ax.barh(names, [100 * shares[name] for name in names], 0.6, color=COLOURS[1])
        ax.set(xlabel="importance for the score (%)", xlim=(0, 100))
        ax.grid(False, axis="y")

    return [draw]
