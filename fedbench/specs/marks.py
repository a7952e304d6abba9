"""How sure the settings are that a number of the paper, or a claim, rests on."""

from collections.abc import Iterator, Mapping

from fedbench.base.errors import ConfigError, unknown
from fedbench.base.explain import is_key, keys
from fedbench.config import TrialConfig
from fedbench.specs.names import Label, Mark, text_label
from fedbench.specs.study import MarkRule, Study

Labels = Mapping[str, Label]


def check_marks(stem: str, study: Study, known: Mapping[str, list[Label]]) -> None:
    """A mark is for a setting or an axis, for labels of an axis, or for what a rule names; known: labels by axis."""
    for key, mark in study.marks.items():
        if isinstance(mark, Mapping) and key in known:
            labels = list(map(text_label, known[key]))
            if wrong := [label for label in mark if label not in labels]:
                raise ConfigError(f"{stem}: marks.{key}: {unknown('value', wrong[0], labels)}")
        elif isinstance(mark, Mapping) or (key not in known and not is_key(TrialConfig, key)):
            raise ConfigError(f"{stem}: marks: {unknown('axis or setting', key, [*known, *keys(TrialConfig)])}")
        elif isinstance(mark, list):
            for rule in mark:
                if missing := [name for name in rule.tables if name not in study.tables]:
                    raise ConfigError(f"{stem}: marks.{key}: {unknown('table', missing[0], study.tables)}")


def marked(
    study: Study, mark: Mark, labels: Labels, config: TrialConfig, metric: str, table: str | None = None
) -> list[str]:
    """The settings behind a cell that have a mark, by name; config: of one of its trials.

    metric: what is looked at; table: where, None for a claim. A setting of a method counts where the method has it.
    """
    return [
        key
        for key, found in _marks(study, labels, metric, table)
        if found == mark and (not key.startswith("method.") or hasattr(config.method, key.removeprefix("method.")))
    ]


def _marks(study: Study, labels: Labels, metric: str, table: str | None) -> Iterator[tuple[str, Mark | None]]:
    """The mark of every setting at one place, None where it has none there."""
    for key, mark in study.marks.items():
        if isinstance(mark, list):
            fitting = [rule.mark for rule in mark if _fits(rule, labels, metric, table)]
            yield key, fitting[-1] if fitting else None
        elif isinstance(mark, Mapping):
            yield key, mark.get(text_label(labels[key])) if key in labels else None
        else:
            yield key, mark


def _fits(rule: MarkRule, labels: Labels, metric: str, table: str | None) -> bool:
    """Return whether a rule is about a place."""
    here = all(labels.get(axis) in wanted for axis, wanted in rule.where.items())
    return here and (not rule.tables or table in rule.tables) and (not rule.values or metric in rule.values)
