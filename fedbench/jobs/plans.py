"""The plan of a study's seeds, stored beside its report before the first look, and the study by that plan."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pydantic import ValidationError

from fedbench.analysis.comparisons import compared_by
from fedbench.base.errors import UserError, one_line
from fedbench.base.files import read_bytes, write_text
from fedbench.render.study import folder_of
from fedbench.specs.expand import Cell, ScaledStudy
from fedbench.specs.names import USUAL_MOST
from fedbench.specs.plan import Plan, deciding_plan
from fedbench.store.store import Store

FILE = "plan.json"
MOST_BYTES = 100_000


def plan_file(study: ScaledStudy, store: Store) -> Path:
    """Where the plan of a study is stored."""
    return folder_of(study, store) / FILE


def decided_with(study: ScaledStudy, most: int | None) -> int | None:
    """Up to how many seeds a study is run until it is decided; None if it has a fixed number of seeds.

    most: what the command asks for, None where it leaves that to the file; the file's word does not go for scale tiny.
    """
    if most is None and (study.scale == "tiny" or not study.study.decide):
        return None
    own = study.study.decide
    return most or (USUAL_MOST if own is True else int(own))


def can_be_decided(study: ScaledStudy) -> bool:
    """Whether a study asks anything that seeds can decide."""
    return bool(study.study.claims) or compared_by(study) is not None


def planned(study: ScaledStudy, store: Store, most: int | None = None) -> ScaledStudy:
    """A study by its stored plan, or by a new one where none is stored of which a trial has ended.

    most: run seeds until everything is decided, but at most so many; None keeps to the stored plan or, without one, to
    the file's seeds. With a plan that adds seeds, each cell has the seeds of the first look and those that are stored.
    """
    stored = _read(plan_file(study, store))
    if stored and stored != study.plan and not _begun(study, stored, store):
        stored = None
    plan = stored or study.plan
    if most and not plan.decides:
        begun = len(plan.seeds) if stored or _begun(study, plan, store) else None
        plan = deciding_plan(plan.seeds, most, plan.margins, fixed_before=begun)
    elif most and most != plan.looks[-1].seeds:
        raise UserError(
            f"{plan_file(study, store)}: the plan of this study has {plan.text}, and results have been seen; "
            "keep to it, or name another folder with --out"
        )
    study = replace(study, plan=plan)
    return _with_stored_seeds(study, store) if plan.decides else study


def store_plan(study: ScaledStudy, store: Store) -> None:
    """Store the plan of a study, unless that is there already."""
    path = plan_file(study, store)
    if _read(path) != study.plan:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, json.dumps(study.plan.model_dump(mode="json"), indent=1) + "\n")


def _read(path: Path) -> Plan | None:
    try:
        content = read_bytes(path, MOST_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or error})") from None
    try:
        return Plan.model_validate_json(content)
    except ValidationError as error:
        first = error.errors()[0]["msg"]
        raise UserError(
            f"{path}: is no plan of seeds ({one_line(first)}); remove it only if no result of the study has been seen"
        ) from None


def _begun(study: ScaledStudy, plan: Plan, store: Store) -> bool:
    """Whether some trial of a plan has ended."""
    return any(store.status(hash_) is not None for hash_ in study.with_seeds(lambda _: plan.seeds).trials)


def _with_stored_seeds(study: ScaledStudy, store: Store) -> ScaledStudy:
    whole = study.with_seeds(lambda _: study.plan.seeds)
    first = study.plan.at(study.plan.looks[0])

    def of(cell: Cell) -> Sequence[int]:
        return [seed for seed, config in cell.trials.items() if seed in first or store.status(config.hash) is not None]

    return whole.with_seeds(of)
