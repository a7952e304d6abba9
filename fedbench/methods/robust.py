"""What the robust rules share: how many clients they take to be corrupt, distances, mixing, rules by coordinate.

All that depends on distances works on one Gram matrix [m, m] in float64, made in one pass over W by blocks of columns:
no copy of W in float64, nothing of size m * m * P. It lives on the CPU, where small matrices are quickest.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, NamedTuple

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from fedbench.base.fields import hashed_settings
from fedbench.methods.base import Cohort, MethodSettings, Update
from fedbench.methods.geometry import blocks, gram, symmetric

Rule = Callable[[Tensor], Tensor]  # from the sorted values of every coordinate [K, k] to one value each [K]


class Needs(NamedTuple):
    """A rule is defined where m >= times * f + plus, f of m clients being corrupt."""

    times: int
    plus: int


MINORITY = Needs(2, 1)


class RobustSettings(MethodSettings):
    """The settings of all robust rules.

    Data sizes are not used, unless a rule says so: a client may misreport its own.
    """

    f: Annotated[float, Field(ge=0, lt=0.5)] = 0.2
    """share of the cohort that is assumed to be corrupt; their number is rounded"""
    pre: Literal["none", "nnm"] = "none"
    """a step before the rule; nnm puts the mean of its m - f nearest, itself among them, in place of each model"""

    needs: ClassVar[Needs | None] = None  # of the rule itself; None if it does not use f

    @property
    def needed(self) -> Needs | None:
        """Return the share that the rule, or the step before it, assumes to be corrupt; None if neither uses f."""
        return self.needs or (MINORITY if self.pre == "nnm" else None)

    def corrupt(self, m: int) -> int:
        """The number of corrupt clients assumed in a cohort of m, rounded as `clients.corrupted` is."""
        return round(self.f * m)

    def check(self, cohort: int) -> str | None:
        """Return whether the rule is defined for so many clients."""
        if self.needed is None:
            return None
        (times, plus), f = self.needed, self.corrupt(cohort)
        if cohort >= (least := times * f + plus):
            return None
        what = f"method.name={self.name}" if self.needs else f"method.pre={self.pre}"
        if cohort < plus:
            return f"{what} needs at least {plus} clients in a round, there are {cohort}"
        most = (cohort - plus) // times
        return (
            f"method.f = {self.f:g}: for {f} corrupt clients {what} needs {times} * {f} + {plus} = {least} clients "
            f"in a round, there are {cohort}; must be at most {most / cohort:g} ({most} of {cohort})"
        )

    def canonical(self) -> dict[str, object]:
        """The share f does not count where it is not used."""
        return hashed_settings(self, () if self.needed else ("f",))


@dataclass(frozen=True)
class Mix:
    """The models that a rule gets to see, A W for a row-stochastic A [m, m] in float64; None: W as it is."""

    A: Tensor | None = None

    def rows(self, X: Tensor) -> Tensor:
        """Some columns of the models [m, K], mixed."""
        return X if self.A is None else self.A.to(X) @ X

    def like(self, W: Tensor) -> "Mix":
        """The same, ready for many blocks of W: of its kind, and where it is."""
        return self if self.A is None else Mix(self.A.to(W))

    def weights(self, lambda_: Tensor) -> Tensor:
        """The clients' weights [m] that weights of the mixed models come down to."""
        return lambda_ if self.A is None else lambda_ @ self.A


def squared_distances(G: Tensor) -> Tensor:
    """|x_i - x_j|^2 [m, m] from a Gram matrix."""
    norms = G.diagonal()
    return (norms[:, None] + norms - 2 * G).clamp_(min=0).fill_diagonal_(0)


def distances_to(coefficients: Tensor, G: Tensor) -> Tensor:
    """|x_i - sum_j a_j x_j| [m] from coefficients a [m] and a Gram matrix of x; any, if they sum to 1."""
    cross = G @ coefficients
    return (G.diagonal() - 2 * cross + coefficients @ cross).clamp_(min=0).sqrt()


def seen(cohort: Cohort, settings: RobustSettings, centre: Tensor) -> tuple[Mix, Tensor]:
    """What the rule gets to see, and the Gram matrix [m, m] of it about a centre [P]."""
    G = gram(cohort.W, centre).cpu()
    if settings.pre == "none":
        return Mix(), G
    A = nearest_neighbours(squared_distances(G), settings.corrupt(len(G)))
    rows, which = A.unique(dim=0, return_inverse=True)  # clients with the same neighbours are exactly at distance 0
    return Mix(A), symmetric(rows @ G @ rows.T)[which][:, which]


def nearest_neighbours(distances: Tensor, f: int) -> Tensor:
    """A [m, m] of nearest-neighbour mixing (Allouah et al., 2023): 1 / (m - f) for the m - f nearest, itself first."""
    m = len(distances)
    nearest = distances.clone().fill_diagonal_(-1).argsort(dim=1, stable=True)[:, : m - f]
    return torch.zeros_like(distances).scatter_(1, nearest, 1 / (m - f))


def mixing(cohort: Cohort, settings: RobustSettings) -> Mix:
    """What a rule by coordinate gets to see; without mixing it needs no distances."""
    return Mix() if settings.pre == "none" else seen(cohort, settings, cohort.w)[0].like(cohort.W)


def ascending(values: Tensor) -> Tensor:
    """A sorted copy along the last dimension.

    By numpy where it can be: torch's sort carries indices along and takes many times as long.
    """
    if values.device.type != "cpu":
        return values.sort(-1).values
    copy = np.array(values.numpy(), order="C")  # transposed views become rows that lie together
    copy.sort(-1)
    return torch.from_numpy(copy)


def middle(ordered: Tensor) -> Tensor:
    """The median [K] of sorted values [K, k]: of an even number, the mean of the two in the middle."""
    k = ordered.shape[-1]
    return (ordered[..., (k - 1) // 2] + ordered[..., k // 2]) / 2


def by_coordinate(X: Tensor, rows: Rule, rule: Rule) -> Tensor:
    """The rule on every column of rows(X): [m, K] to [K]."""
    result = X.new_empty(X.shape[1])
    for part in blocks(X.shape[1]):
        result[part] = rule(ascending(rows(X[:, part]).T))
    return result


def coordinate_update(cohort: Cohort, rows: Rule, rule: Rule) -> Update:
    """The rule on every parameter and every running statistic; no client has a weight as a whole."""
    statistics = None if cohort.bn == "proxy" else by_coordinate(cohort.B, rows, rule)
    w = cohort.towards(by_coordinate(cohort.W, rows, rule))
    return Update(w=w, lambda_=None, buffers=statistics)
