"""A search space as data: base settings, methods, parameters, metric, budget and seeds, in one YAML file."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from pydantic import AfterValidator, Field

from fedbench.base.errors import ConfigError, UserError, unknown
from fedbench.base.fields import Seeds, Strict, no_duplicates
from fedbench.base.settings import Settings, in_words, merge, nest
from fedbench.config import LAST_ROUNDS, TrialConfig
from fedbench.specs.consistency import check_changes, result_changes
from fedbench.specs.library import built_in, load
from fedbench.specs.names import ScaleName, variant_name
from fedbench.specs.parameters import Parameter, Parameters, Value, corners, fill, look_up, parameters_in, parameters_of
from fedbench.specs.parts import ClaimSpec, ScoreSpec
from fedbench.specs.study import CheckChoice

VALIDATION = 0.2  # share of the training data that a suggestion is scored on, where the space says nothing
TINY = {"rounds": 2, "data.train_size": 200, "clients.count": 5}
TINY_TRIALS = 3
DIRECTIONS: Mapping[str, Literal["max", "min"]] = {
    "validation_accuracy": "max",
    "validation_loss": "min",
    "validation_worst_client": "max",
}

Budget = Annotated[int, Field(ge=1)]
MOST_RUNS, MOST_SEEDS = 20_000, 200  # of a method's suggestions; of each of them, and of the table


class SpaceScale(Strict):
    """What a scale changes: base settings are merged, the rest replaces."""

    base: dict[str, Any] = {}
    methods: Annotated[list[str], Field(min_length=1), AfterValidator(no_duplicates)] | None = None
    trials: Budget | None = None
    rounds: Budget | None = None
    suggestion_seeds: Seeds | None = None
    seeds: Seeds | None = None


class Space(Strict):
    """A space file."""

    title: Annotated[str, Field(examples=["My methods, tuned"])]
    """a headline"""
    tunes: Annotated[str, Field(examples=["the learning rate"])]
    """what is searched, in a few words"""
    import_: list[str] = Field(default=[], alias="import")
    """modules with methods, models and the like of your own: names, or files beside this one"""
    base: dict[str, Any] = {}
    """settings of all runs"""
    methods: Annotated[dict[str, dict[str, Any]], Field(min_length=1)] | None = None
    """names with settings: each is searched for itself, with the same budget; one method needs none. A method that no
    parameter applies to is a reference"""
    references: dict[str, dict[str, Any]] = {}
    """further names with settings that nothing is searched for: rows to compare with"""
    baseline: str | None = None
    """the method that the others are compared with; FedAvg, where there is one, else the first"""
    claims: list[Annotated[ClaimSpec, CheckChoice]] = []
    """claims on the result, over the axes `method` and `settings` (default, tuned); by default that each tuned method
    beats the tuned baseline"""
    parameters: Annotated[Parameters, Field(examples=["{clients.lr: {loguniform: [1e-3, 0.5]}}"])]
    """a range or a choice for a setting, or several, each with a condition"""
    metric: Literal["validation_accuracy", "validation_loss", "validation_worst_client"] = "validation_accuracy"
    """what the best is the best of: the highest accuracy, the lowest loss, or the highest accuracy that is expected of
    the worst client"""
    trials: Annotated[Budget, Field(examples=["20"])]
    """suggestions for each method"""
    rounds: Budget | None = None
    """of a suggestion; null for those of the base"""
    score: ScoreSpec = ScoreSpec()
    """`{rounds: N}`: a score is the mean of the last N rounds (a tenth of all, but 3 to 10)"""
    suggestion_seeds: Annotated[Seeds, Field(examples=["[1, 2, 3]"])]
    """whose mean scores a suggestion"""
    seeds: Annotated[Seeds, Field(examples=["[8, 9, 10]"])]
    """of the table at the end"""
    scales: Annotated[dict[ScaleName, SpaceScale], Field(examples=["{quick: {}}"])]
    """what quick and paper change; tiny is quick, made tiny, with the base that stands here"""

    @property
    def direction(self) -> Literal["max", "min"]:
        """Return whether the metric is to be large or small."""
        return DIRECTIONS[self.metric]


@dataclass(frozen=True)
class Arm:
    """One method of a space: what is fixed, and what is searched. Its fixed settings are the method's default.

    Without parameters it is a reference: nothing is searched.
    """

    label: str
    fixed: Settings
    parameters: Sequence[Parameter]

    def settings(self, chosen: dict[str, Value]) -> Settings:
        """The settings that a suggestion's values, by parameter name, stand for."""
        return fill(self.fixed, self.parameters, lambda parameter: chosen[parameter.name])

    def default(self, config: TrialConfig) -> dict[str, Value] | None:
        """The values, by parameter name, of the default settings; None where the space does not hold them all."""
        resolved, values = config.model_dump(mode="json"), dict[str, Value]()

        def choose(parameter: Parameter) -> Value:
            values[parameter.name] = look_up(resolved, parameter.key)
            return values[parameter.name]

        fill(self.fixed, self.parameters, choose)
        return values if all(p.contains(values[p.name]) for p in self.parameters if p.name in values) else None

    @property
    def slug(self) -> str:
        """The label as part of a file's name."""
        words = "".join(c if c.isalnum() else " " for c in self.label.lower()).split()
        return "-".join(words)


@dataclass(frozen=True)
class ScaledSpace:
    """A space at one scale, checked: what is searched, and what is run with the best.

    changed: base settings that options changed; picked: in words, the methods and seeds that they picked; source: its
    name, or its file, as it was given.
    """

    name: str
    scale: str
    space: Space
    arms: Sequence[Arm]
    trials: int
    rounds: int | None
    suggestion_seeds: Sequence[int]
    seeds: Sequence[int]
    validation: float
    changed: Settings
    picked: Sequence[str]
    source: str = ""

    @property
    def title(self) -> str:
        """Return the title of the space with the scale, changed base settings, and what was picked."""
        changed = f"; changed: {', '.join(in_words(self.changed))}" if self.changed else ""
        picked = f"; only {', '.join(self.picked)}" if self.picked else ""
        return f"{self.space.title} (scale {self.scale}{changed}{picked})"

    @property
    def other(self) -> str:
        """Return a short name for changed base settings, which make another search with suggestions of its own."""
        return variant_name(in_words(self.changed))

    @property
    def variant(self) -> str:
        """Return a short name for everything that options changed, usable as a folder.

        Empty if they changed nothing.
        """
        return variant_name([*in_words(self.changed), *self.picked])

    def suggestion_settings(self, settings: Settings) -> list[Settings]:
        """Return the settings of the runs that score a suggestion: one for each seed, with a validation split."""
        score: Settings = {"data": {"validation": self.validation}, **({"rounds": self.rounds} if self.rounds else {})}
        if self.space.metric == "validation_worst_client":
            score["indicators"] = {"client_validation": True}
        return [merge(settings, {**score, "seed": seed}) for seed in self.suggestion_seeds]

    def suggestion(self, settings: Settings) -> list[TrialConfig]:
        """Return the configs of the runs that score a suggestion."""
        return [TrialConfig(**run) for run in self.suggestion_settings(settings)]

    def final(self, settings: Settings) -> dict[int, TrialConfig]:
        """Return the configs of the table, by seed: as in a study, with all training data."""
        return {seed: TrialConfig(**merge(settings, {"seed": seed})) for seed in self.seeds}

    def length(self, arm: Arm) -> int:
        """Return the rounds of a suggestion that is not stopped."""
        return self.suggestion(arm.fixed)[0].rounds

    def score_rounds(self, arm: Arm) -> int:
        """Return how many last rounds of a suggestion its score is the mean of."""
        return self.space.score.over(self.length(arm))

    def shown(self, score: float) -> str:
        """Return a score as text."""
        return f"{score:.4f}" if self.space.metric == "validation_loss" else f"{100 * score:.2f} %"

    def study_name(self, arm: Arm) -> str:
        """Return the name of Optuna's study for one method."""
        return "/".join(filter(None, (self.name, self.scale, self.other, arm.label)))

    def fingerprint(self, arm: Arm) -> Settings:
        """Return everything that identifies a search.

        Two searches that differ in their budgets alone are the same one.
        """
        runs = [config.hash for settings in corners(arm.fixed, arm.parameters) for config in self.suggestion(settings)]
        scored = self.score_rounds(arm)
        return {
            **({"score_rounds": scored} if scored != LAST_ROUNDS else {}),  # ten, where older searches have none
            "metric": self.space.metric,
            "rounds": self.length(arm),
            "suggestion_seeds": list(self.suggestion_seeds),
            "validation": self.validation,
            "parameters": [parameter.describe() for parameter in arm.parameters],
            "settings": hashlib.sha256("".join(runs).encode()).hexdigest(),
        }


def space_files() -> dict[str, Path]:
    """The built-in spaces by name."""
    return built_in("search_spaces")


def expand_space(
    name: str,
    scale: str,
    *,
    changes: Settings,
    only: Sequence[str] | None = None,
    seeds: Sequence[int] | None = None,
    trials: int | None = None,
) -> ScaledSpace:
    """A space at a scale, with base settings changed, methods picked, seeds and budget replaced; all of it checked."""
    stem, space = load("search_spaces", name, Space, "search space")
    spec = space.scales.get(cast(ScaleName, "quick" if scale == "tiny" else scale))
    if spec is None:
        raise UserError(f"search space '{stem}' has no scale '{scale}'; it has {', '.join(space.scales)}")
    rows = [*(space.methods or {"": {}}).values(), *space.references.values()]
    check_changes(changes, {"method": [nest(settings, stem) for settings in rows]})
    tiny = scale == "tiny"
    base = merge(nest(space.base, stem), nest(spec.base, stem))
    if tiny:
        base = merge(merge(base, nest(TINY)), nest(space.scales.get("tiny", SpaceScale()).base, stem))
    base = merge(base, changes)
    for at, settings in {"base": base, **_named_settings(space)}.items():
        if "seed" in settings:
            raise ConfigError(f"{stem}: {at}.seed: name seeds under seeds, and suggestion_seeds")
    validation, base = _validation(base, stem)
    arms = _arms(space, base, stem)
    chosen = (
        _pick(arms, only, "--only method=")
        if only
        else _pick(arms, spec.methods and [*spec.methods, *space.references], f"{stem}: scales.{scale}.methods: ")
    )
    budget = spec.trials or space.trials
    suggestion_seeds, table_seeds = spec.suggestion_seeds or space.suggestion_seeds, spec.seeds or space.seeds
    scaled = ScaledSpace(
        name=stem,
        scale=scale,
        space=space,
        arms=chosen,
        trials=trials or (min(budget, TINY_TRIALS) if tiny else budget),
        rounds=None if tiny or "rounds" in changes else spec.rounds or space.rounds,
        suggestion_seeds=suggestion_seeds[:1] if tiny else suggestion_seeds,
        seeds=list(seeds or (table_seeds[:1] if tiny else table_seeds)),
        validation=validation,
        changed=result_changes(changes),
        picked=[
            *([f"method={','.join(arm.label for arm in chosen)}"] if only else []),
            *([f"seeds={','.join(map(str, seeds))}"] if seeds else []),
        ],
        source=str(name),
    )
    _check_size(scaled)
    _check_seeds(scaled)
    for arm in scaled.arms:
        _check(scaled, arm)
    return scaled


def _named_settings(space: Space) -> dict[str, Settings]:
    """The settings of all methods and references, by where they stand in the file."""
    kinds = {"methods": space.methods or {}, "references": space.references}
    return {f"{kind}.{label}": settings for kind, rows in kinds.items() for label, settings in rows.items()}


def _check_size(scaled: ScaledSpace) -> None:
    """Refuse a search with too many seeds or runs."""
    seeds = max(len(scaled.suggestion_seeds), len(scaled.seeds))
    if seeds > MOST_SEEDS:
        raise ConfigError(f"{scaled.name}: {seeds} seeds; must be at most {MOST_SEEDS}")
    if (runs := scaled.trials * len(scaled.suggestion_seeds)) > MOST_RUNS:
        raise ConfigError(
            f"{scaled.name}: {runs} runs for the suggestions of each method (trials x suggestion_seeds); "
            f"must be at most {MOST_RUNS}"
        )


def _check_seeds(scaled: ScaledSpace) -> None:
    """Refuse seeds that settings were chosen by, since their scores in the table would be too good."""
    if both := sorted(set(scaled.seeds) & set(scaled.suggestion_seeds)):
        raise ConfigError(
            f"{scaled.name}: seeds = {', '.join(map(str, both))}: suggestion_seeds has the same; "
            "name other seeds for the table, for settings do well on the seeds that they were chosen by"
        )


def _validation(base: Settings, where: str) -> tuple[float, Settings]:
    """The share kept for scoring, and the base without it: the table's runs train on all data, as studies do."""
    data = dict(base.get("data", {}))
    share = data.pop("validation", VALIDATION)
    if not isinstance(share, int | float) or not 0 < share < 1:
        raise ConfigError(
            f"{where}: data.validation = {share!r}: suggestions are scored on it; must be between 0 and 1"
        )
    return float(share), {**base, "data": data}


def _arms(space: Space, base: Settings, where: str) -> list[Arm]:
    """The methods of a space; without any, the base is the only one, named after its method."""
    parameters = parameters_in(space.parameters, where)
    methods = space.methods or {TrialConfig(**base).method.name: {}}
    arms = []
    for label, settings in methods.items():
        fixed = merge(base, nest(settings, f"{where}: methods.{label}"))
        arms.append(Arm(label, fixed, parameters_of(fixed, parameters)))
    if not any(arm.parameters for arm in arms):
        raise ConfigError(f"{where}: parameters: none applies to any method, so there is nothing to search")
    for label, settings in space.references.items():
        if label in methods:
            raise ConfigError(f"{where}: references.{label}: a method is called so; choose another name")
        arms.append(Arm(label, merge(base, nest(settings, f"{where}: references.{label}")), []))
    if space.baseline is not None and space.baseline not in [arm.label for arm in arms]:
        raise ConfigError(f"{where}: baseline: {unknown('method', space.baseline, [arm.label for arm in arms])}")
    _check_names(arms, parameters, where)
    return arms


def _check_names(arms: list[Arm], parameters: list[Parameter], where: str) -> None:
    """Check that every parameter applies to some method, and that no two methods share a file name."""
    for parameter in parameters:
        if not any(
            parameter.key == used.key and parameter.values == used.values for a in arms for used in a.parameters
        ):
            raise ConfigError(
                f"{where}: parameters.{parameter.key}: its condition never holds; "
                "base, a method or an earlier parameter must set its key"
            )
    slugs = [arm.slug for arm in arms]
    for arm in arms:
        if not arm.slug or slugs.count(arm.slug) > 1:
            raise ConfigError(
                f"{where}: methods.{arm.label}: the name is too like another's; choose one with other letters"
            )


def _pick(arms: list[Arm], only: Sequence[str] | None, where: str) -> list[Arm]:
    """Return the methods that --only or a scale names, separately or joined by commas, in the file's order; or all."""
    labels = [arm.label for arm in arms]
    wanted = [label for given in only or () for label in ([given] if given in labels else given.split(","))]
    for label in wanted:
        if label not in labels:
            raise ConfigError(f"{where}{label}: {unknown('method', label, labels)}")
    chosen = [arm for arm in arms if only is None or arm.label in wanted]
    if not any(arm.parameters for arm in chosen):
        raise ConfigError(f"{where}{','.join(wanted)}: no parameter applies, so there is nothing to search")
    return chosen


def _check(scaled: ScaledSpace, arm: Arm) -> None:
    """Check that every end of every range, and the default, is a config that can run."""
    for settings in corners(arm.fixed, arm.parameters):
        try:
            (config, *_), _final = scaled.suggestion(settings), scaled.final(settings)
        except ConfigError as error:
            raise ConfigError(f"search space '{scaled.name}', {arm.label}: {error}") from None
        if not config.validation_samples:
            raise ConfigError(f"{scaled.name}: data.validation = {scaled.validation}: leaves no image to score on")
