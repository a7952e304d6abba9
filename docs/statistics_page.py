"""What docs/statistics.md shows: how often verdicts are false and true, before and now, and the picture of it."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pandas as pd

FOLDER = Path(__file__).parent / "statistics"
PICTURE = Path(__file__).parent / "statistics.png"
WHEN = {"before": "before", "after": "now"}
SEEDS = (3, 5, 10)
POWER_SEEDS = (3, 10)
EFFECTS = (1.0, 2.0, 3.0)
SIMULATIONS = 4000  # of most entries of after.csv
CELLS = (2, 3, 4, 5, 6, 10, 20)
PLANS = {(1, 3): "3", (1, 10): "10", (4, 12): "3, 5, 8, 12", (5, 20): "3, 5, 8, 12, 20"}  # by looks and seeds
Table = Callable[[Sequence[str], Iterable[Sequence[str]]], str]  # heads and rows as Markdown
EXAMPLES = (  # mean, low, high, verdict, in words
    (2.1, 0.6, 3.6, "holds", "all of it is above zero"),
    (0.9, -0.5, 2.3, "open", "zero is in it"),
    (-1.4, -2.3, -0.5, "fails", "all of it is below zero"),
)
COLOURS = {"holds": "#1b7f3b", "fails": "#b3261e", "open": "#6b6b6b"}


def entries() -> dict[str, pd.DataFrame]:
    """The simulated entries of both versions of the rules (see benchmarks/verdicts.py)."""
    return {when: pd.read_csv(FOLDER / f"{when}.csv") for when in WHEN}


def false_rates() -> pd.DataFrame:
    """The largest rate of every false decision about claims, over all situations and kinds of noise, by seeds."""
    found = []
    for when, frame in entries().items():
        edge = frame[frame.promise.notna() & (frame.effect == 0) & ~frame.about.isin(["ranks", "q values"])]
        edge = edge.assign(looks=edge.get("looks", 1))
        worst = edge.groupby(["about", "decision", "promise", "seeds", "looks"], as_index=False).rate.max()
        found.append(worst.assign(when=when))
    return pd.concat(found, ignore_index=True)


def false_decisions(table: Table) -> str:
    """Of every check and decision: what is promised, and the largest rate, before and now."""
    rates = false_rates()
    rows = []
    for (about, decision, promise), part in rates.groupby(["about", "decision", "promise"]):
        at = part.set_index(["when", "looks", "seeds"]).rate.to_dict()
        columns = [[(when, 1, seeds) for seeds in SEEDS] for when in WHEN]
        columns.append([("after", count, seeds) for count, seeds in PLANS if count > 1])
        # Some checks and decisions are newer than the rules before.
        rates = [" / ".join(_percent(at[k]) for k in keys) if keys[0] in at else "-" for keys in columns]
        rows.append(
            (f"`{about}`", str(decision).replace("too small", "too small to matter"), _percent(float(promise)), *rates)
        )
    heads = ("before, 3 / 5 / 10 seeds", "now, 3 / 5 / 10 seeds", "looks up to 12 / 20 seeds")
    return table(("check", "decision", "promised", *heads), rows)


def true_decisions(table: Table) -> str:
    """How often what is there is found, before and now: normal noise, effects of 1, 2 and 3 standard deviations."""
    both = pd.concat([frame.assign(when=when) for when, frame in entries().items()])
    right = both[both.promise.isna() & (both.about != "ranks") & both.effect.isin(EFFECTS) & ~(both.looks > 1)]
    right = right[right.situation != "comparison"]
    rows = []
    for (about, situation, decision), part in right.groupby(["about", "situation", "decision"], sort=False):
        at = part.set_index(["when", "seeds", "effect"]).rate
        known = at.index.get_level_values("when")
        rates = [
            " / ".join(f"{100 * at[when, n, e]:.0f}" for e in EFFECTS) if when in known else "-"
            for n in POWER_SEEDS
            for when in WHEN
        ]
        rows.append((f"`{about}`", str(situation), str(decision), *rates))
    heads = [f"{n} seeds, {words}: 1 / 2 / 3 sd, %" for n in POWER_SEEDS for words in WHEN.values()]
    return table(("check", "situation", "decision", *heads), rows)


def looks(table: Table) -> str:
    """What a plan finds of a difference, for a margin of one standard deviation; and with how many seeds."""
    frame = pd.read_csv(FOLDER / "looks.csv")
    rows = []
    for (count, seeds), part in frame.groupby(["looks", "seeds"]):
        if (count, seeds) not in PLANS:
            continue
        for decision, words in {"holds": "better", "fails": "worse", "too small": "too small to matter"}.items():
            rates = part[part.decision == decision].set_index("effect").rate
            rows.append((PLANS[count, seeds], words, *(f"{100 * rate:.1f} %" for rate in rates)))
        by_effect = part.groupby("effect")
        rows.append((PLANS[count, seeds], "decided", *(f"{100 * rate:.0f} %" for rate in by_effect.rate.sum())))
        rows.append((PLANS[count, seeds], "seeds", *(f"{used:.1f}" for used in by_effect.used.first())))
    return table(("seeds", "", *(f"{effect:g} sd" for effect in sorted(frame.effect.unique()))), rows)


def rank_decisions(table: Table) -> str:
    """How often competitors that are alike are told apart, at worst, by the number of cells."""
    rows = []
    for when, frame in entries().items():
        ranks = frame[(frame.about == "ranks") & (frame.effect == 0)]
        for decision, part in ranks.groupby("decision", sort=False):
            worst = part.groupby("cells").rate.max()
            rows.append((str(decision), WHEN[when], *(_percent(worst[n]) for n in CELLS)))
    return table(("two that are alike are", "", *(f"{n} cells" for n in CELLS)), sorted(rows))


def _percent(rate: float) -> str:
    return f"{100 * rate:.1f} %"


def draw() -> None:
    """The picture: what an interval says, and the false rates of every check before and now."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), width_ratios=(1, 1.35), layout="constrained")
    for row, (mean, low, high, verdict, words) in enumerate(EXAMPLES):
        left.plot([low, high], [row, row], color=COLOURS[verdict], linewidth=2.5)
        left.plot([mean], [row], "o", color=COLOURS[verdict])
        left.annotate(f"{verdict}: {words}", (low, row), (0, 9), textcoords="offset points", fontsize=9)
    left.axvline(0, color="0.3", linewidth=0.8)
    left.set(ylim=(len(EXAMPLES) - 0.5, -0.7), yticks=[], xlabel="difference of two methods, 95 % interval")
    left.set_title("What follows from an interval", fontsize=10)
    worst = false_rates().groupby(["about", "when"]).rate.max().unstack()
    worst = worst.sort_values(["before", "after"], na_position="first")
    for row, (about, rates) in enumerate(worst.iterrows()):
        right.plot([100 * rates.before, 100 * rates.after], [row, row], color="0.8", linewidth=1.5, zorder=0)
        right.annotate(str(about), (0.9, row), (-4, 0), textcoords="offset points", ha="right", va="center", fontsize=8)
    right.scatter(100 * worst.before, range(len(worst)), color=COLOURS["fails"], label="before")
    right.scatter(100 * worst.after, range(len(worst)), color=COLOURS["holds"], label="now")
    right.axvspan(2.5, 2.5 + 200 * (0.025 * 0.975 / SIMULATIONS) ** 0.5, color="0.88", zorder=-1)
    right.axvline(2.5, color="0.3", linewidth=0.8, linestyle="--")
    right.set(xscale="log", xlim=(0.9, 60), yticks=[], xlabel="largest rate of a false decision, %")
    right.set_xticks([1, 2.5, 5, 10, 30], ["1", "2.5", "5", "10", "30"], minor=False)
    right.minorticks_off()
    right.set_title("False decisions, before and now (dashed: the promise)", fontsize=10)
    right.legend(loc="lower right", fontsize=8)
    for axes in (left, right):
        axes.spines[["top", "right", "left"]].set_visible(False)
    figure.savefig(PICTURE, dpi=130)
    plt.close(figure)
