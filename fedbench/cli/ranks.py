"""Ranks over the cells of several studies together: what `report --ranks` does."""

import argparse

from fedbench.analysis.ranks import Ranks, rank, study_scores, together
from fedbench.analysis.trials import stored_trials
from fedbench.base.errors import UserError
from fedbench.base.text import say
from fedbench.cli.studies import chosen_studies, results_in, say_where, warn
from fedbench.cli.tables import show_sheet
from fedbench.render.report import write_ranks
from fedbench.render.sheets import Entry, Sheet


def rank_studies(options: argparse.Namespace) -> None:
    """Rank who is in all of the studies over all their cells; print it, and write it to OUT/ranks."""
    names, parts = options.ranks, []
    if twice := [name for name in names if names.count(name) > 1]:
        raise UserError(f"--ranks: {twice[0]} stands twice; name it once")
    store = results_in("--out", options.out, names[0])
    for name in names:
        (study,) = chosen_studies(argparse.Namespace(**{**vars(options), "name": name}))
        scores = study_scores(study, stored_trials(study, store))
        warn(store)
        if scores is None:
            raise UserError(f"--ranks {name}: has no axis to rank along; its file may name one (ranks: AXIS)")
        parts.append((study, scores))
    if len(values := {scores.value for _, scores in parts}) > 1:
        raise UserError(f"--ranks {' '.join(names)}: ranked by different metrics ({', '.join(sorted(values))})")
    scores, elsewhere = together([scores for _, scores in parts])
    if len(scores.labels) < 2:
        raise UserError(f"--ranks {' '.join(names)}: fewer than two competitors are in all of them")
    ranks = rank(scores, elsewhere)
    if ranks is None:
        raise UserError(f"--ranks {' '.join(names)}: fewer than two competitors have results at scale {options.scale}")
    first = parts[0][0]
    folder = store.reports / "ranks" / "+".join(study.name for study, _ in parts) / first.scale / first.variant
    folder.mkdir(parents=True, exist_ok=True)
    show_ranks(ranks, f"{', '.join(study.study.title for study, _ in parts)} (scale {first.scale})")
    for path in write_ranks(ranks, folder):
        say(path)
    say_where(store)


def show_ranks(ranks: Ranks, title: str) -> None:
    """Print ranks as a table, the sentence, and who is left out."""
    rows: list[list[str | Entry]] = [
        [
            Entry(str(number)),
            name,
            Entry(f"{ranks.mean.ranks[number - 1]:.2f}"),
            Entry(str(ranks.missing[number - 1])),
            Entry(str(ranks.diverged[number - 1])),
        ]
        for number, name in enumerate(ranks.names, start=1)
    ]
    heads = ["", "name", "mean rank", "missing", "diverged"]
    show_sheet(Sheet(heads, rows, f"{title}: ranks over {ranks.cells} cells"))
    say(f"{ranks.sentence}; within {ranks.margin:g} points two are no different")
    if ranks.left_out:
        say(f"left out, not in all studies or without results: {', '.join(ranks.left_out)}")
