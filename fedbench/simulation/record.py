"""What one round leaves behind."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

Row = tuple[float | int | str | None, ...]

# Indicators beyond the fixed columns, each a table of its own; every row starts with the round.
TABLES: Mapping[str, tuple[str, ...]] = {
    "indicators": ("round", "name", "value"),
    "coherence": ("round", "client", "other", "cosine"),
    "server_path": ("round", "epoch", "gamma", "loss"),
    "server_lambda": ("round", "epoch", "client", "lambda"),
    "simplex": ("round", "lambda_0", "lambda_1", "lambda_2", "loss", "accuracy"),
}

GROUPS = ("balanced", "imbalanced")  # of the clients of a hybrid partition
INDICATORS = (  # the names in the table of that name
    *(f"heterogeneity_{kind}{suffix}" for kind in ("coherence", "cosine") for suffix in ("", "_by_size")),
    *(f"{kind}_{group}" for kind in ("coherence_def", "coherence_mean", "lambda") for group in GROUPS),
    *("hessian_top1", "hessian_top5", "hessian_top1_top5"),
)


@dataclass(frozen=True)
class Record:
    """One round. Accuracies are fractions; None means not evaluated, not defined, or diverged.

    train_loss: mean over the cohort of the clients' mean loss while they trained, by data size; gamma, r, norm_opt,
    norm_reg: see `indicators.shrinking`; norm_w: length of the new global model; clients, lambda_, samples: the cohort,
    its weights and data sizes |D_i|; seconds_eval: for scoring and indicators; tables: rows for the tables above,
    without the round; diverged: the reason why the run ends here, if it does.
    """

    round: int
    test_accuracy: float | None = None
    test_loss: float | None = None
    train_loss: float | None = None
    gamma: float | None = None
    r: float | None = None
    norm_opt: float | None = None
    norm_reg: float | None = None
    norm_w: float | None = None
    coherence_def: float | None = None
    coherence_mean: float | None = None
    seconds_train: float = 0.0
    seconds_server: float = 0.0
    seconds_eval: float = 0.0
    validation_accuracy: float | None = None
    validation_loss: float | None = None
    clients: tuple[int, ...] = ()
    lambda_: tuple[float, ...] = ()
    samples: tuple[int, ...] = ()
    tables: Mapping[str, tuple[Row, ...]] = field(default_factory=dict)
    diverged: str | None = None

    def __post_init__(self) -> None:
        """NaN and infinity never get into a record: what is not a number is None."""
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, float) and not math.isfinite(value):
                object.__setattr__(self, item.name, None)
        tables = {name: tuple(tuple(map(_finite, row)) for row in rows) for name, rows in self.tables.items()}
        object.__setattr__(self, "tables", tables)

    def as_dict(self) -> dict[str, Any]:
        """All fields by name, made of plain types."""
        return {item.name: getattr(self, item.name) for item in fields(self)}


# What there is of every round, or of some: columns of rounds.csv and indicators.
NOT_CURVES = ("round", "clients", "lambda_", "samples", "tables", "diverged")
CURVES = (*(item.name for item in fields(Record) if item.name not in NOT_CURVES), *INDICATORS)


def _finite(value: float | int | str | None) -> float | int | str | None:
    return None if isinstance(value, float) and not math.isfinite(value) else value
