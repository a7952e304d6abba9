"""The result of a search as a study: every method with its default and with its tuned settings, on fresh seeds."""

from collections.abc import Mapping, Sequence
from typing import Any

from fedbench.base.settings import Settings
from fedbench.specs.expand import Cell, ScaledStudy
from fedbench.specs.plan import fixed_plan
from fedbench.specs.space import Arm, ScaledSpace
from fedbench.specs.study import Study

METHOD, SETTINGS = "method", "settings"  # the axes
DEFAULT, TUNED = "default", "tuned"  # the labels of the second one
USUAL_BASELINE = "FedAvg"


def result_study(space: ScaledSpace, best: Mapping[str, Settings], modules: Sequence[str] = ()) -> ScaledStudy:
    """Return the study of a space's methods; best: the tuned settings of those of which they are known.

    A method without parameters is a reference: what it has counts as its tuned settings, too, and is run once.
    """
    cells = []
    for arm in space.arms:
        settings = {DEFAULT: arm.fixed, TUNED: best.get(arm.label) if arm.parameters else arm.fixed}
        for label, chosen in settings.items():
            if chosen is not None:
                cells.append(Cell({METHOD: arm.label, SETTINGS: label}, space.final(chosen)))
    axes = {METHOD: [arm.label for arm in space.arms], SETTINGS: [DEFAULT, TUNED]}
    return ScaledStudy(
        name=space.name,
        scale=space.scale,
        study=_study(space),
        axes=axes,
        whole=axes,
        cells=cells,
        changed=space.changed,
        picked=space.picked,
        score=space.space.score,
        source=space.source,
        modules=modules,
        plan=fixed_plan(space.seeds, {}),
        home="searches",
    )


def _study(space: ScaledSpace) -> Study:
    """What its study file would say."""
    several = len(space.arms) > 1
    base = {METHOD: baseline_of(space)} if several else {SETTINGS: DEFAULT}
    shape = {"rows": [METHOD], "columns": [SETTINGS]}
    return Study.model_validate(
        {
            "title": space.space.title,
            "shows": f"Default and tuned settings ({space.space.tunes}), on seeds by which no setting was chosen.",
            "import": space.space.import_,
            "grid": {METHOD: {arm.label: {} for arm in space.arms}, SETTINGS: {DEFAULT: {}, TUNED: {}}},
            "seeds": list(space.seeds),
            "baseline": base,
            "tables": {
                "accuracy": {**shape, "best": "column" if several else "row"},
                "gain": {**shape, "show": "difference"},
            },
            "plots": {"curves": {"kind": "curves", "colour": METHOD, "panels": [SETTINGS]}},
            "claims": [*(space.space.claims or _between(space)), *_of_tuning(space)],
            "scales": {"quick": {}},
        }
    )


def baseline_of(space: ScaledSpace) -> str:
    """Return the method that the others are compared with: the file's, else FedAvg, else the first one."""
    labels = [arm.label for arm in space.arms]
    wanted = space.space.baseline or USUAL_BASELINE
    return wanted if wanted in labels else labels[0]


def _between(space: ScaledSpace) -> list[dict[str, Any]]:
    """Claims that tuned methods beat the tuned baseline."""
    base, claims = baseline_of(space), []
    for arm in space.arms:
        if arm.label != base:
            claims.append(_beats(f"{arm.label} beats {base}, both tuned", (arm.label, TUNED), (base, TUNED)))
    return claims


def _of_tuning(space: ScaledSpace) -> list[dict[str, Any]]:
    """Claims that tuning makes methods better."""
    return [_beats(f"tuning improves {arm.label}", (arm.label, TUNED), (arm.label, DEFAULT)) for arm in tuned(space)]


def _beats(says: str, point: tuple[str, str], against: tuple[str, str]) -> dict[str, Any]:
    places = [dict(zip((METHOD, SETTINGS), place, strict=True)) for place in (point, against)]
    return {"says": says, "source": "ours", "check": "beats", "point": places[0], "against": places[1]}


def tuned(space: ScaledSpace) -> list[Arm]:
    """Return the methods of a space that are searched; the others are references."""
    return [arm for arm in space.arms if arm.parameters]
