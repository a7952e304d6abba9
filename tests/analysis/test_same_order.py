"""The check that what is ahead at one point is ahead at another."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from fedbench.analysis.checks.base import Cells, Group
from fedbench.analysis.looks import judged_at
from fedbench.analysis.statistics.verdicts import LEVEL, Array, over_looks
from fedbench.specs.expand import Cell
from fedbench.specs.names import Label
from fedbench.specs.parts import CHECKS
from tests.analysis.test_claims import falling, findings


def verdict(order: Sequence[int], first: Sequence[int]) -> str:
    """The verdict on the order of labels 0, 1, ... at one point, by seed, where they ascend at the other."""
    claim = CHECKS.get("same_order").model_validate(
        {"says": "So", "check": "same_order", "point": {"m": "a"}, "against": {"m": "b"}, "axis": "x"}
    )
    cells: dict[tuple[Label, ...], Cells] = {
        (place, label): (Cell({"m": place, "x": label}, {}),) for place in "ab" for label in range(len(order))
    }

    def read(chosen: Cells, metric: str) -> Array:
        label = int(str(chosen[0].labels["x"]))
        there = [first[label], *[order[label]] * 3] if chosen[0].labels["m"] == "a" else [label] * 4
        return np.array(there, float)

    evidence = claim.evidence(Group(claim, cells, ["m", "x"], read, {}, 4))
    return str(over_looks([judged_at(evidence, None, LEVEL)]).verdicts)


@pytest.mark.parametrize(
    ("order", "first", "wanted"),
    [
        ([0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 5, 4], "holds"),
        ([5, 4, 3, 2, 1, 0], [5, 4, 3, 2, 0, 1], "fails"),
        ([1, 0, 4, 5, 2, 3], [0, 1, 4, 5, 2, 3], "open"),  # 0.4 over six labels is nothing, however sure it is
        ([0, 1, 2, 3, 4], [0, 1, 2, 4, 3], "open"),  # five labels
    ],
)
def test_an_order_carries_over_is_turned_round_or_is_another(order: list[int], first: list[int], wanted: str) -> None:
    assert verdict(order, first) == wanted


def test_the_order_along_an_axis_of_a_study_is_compared_between_two_points(tmp_path: Path) -> None:
    claim = "check: same_order, point: {data.alpha: 100}, against: {data.alpha: 1}, axis: method.gamma"
    (found,) = findings(tmp_path, claim, falling)
    assert found.verdict == "open"
    assert "100 with 1, rank correlation over 3 labels of gamma (fewer than 6: open): 1.00" in found.evidence
