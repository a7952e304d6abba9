"""What holds for whole families of rules: the order of clients does not matter, nor where the origin lies."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedbench import TrialConfig
from fedbench.methods import METHODS, Cohort, Method, Update
from tests.methods.helpers import BOUNDS, IGNORE_SIZES, tiny_cohort, tiny_server

BY_UPDATES = ["fedavg", "fedavgm", "fedadam", "fedyogi", "fedadagrad", "fedexp", "fednova", "scaffold", "feddyn"]
BY_UPDATES += [
    "qfedavg",
    "feddisco",
    "fedadp",
    "fed_nga",
]  # rules of updates alone: a shift of all models shifts the result
BY_MODELS = ["fedlws", "l_dawa", "fedawa", "fedhaw", "fixed_gamma", "fedvg"]  # lengths of models play a part
METHOD = st.sampled_from([*BY_UPDATES, *BY_MODELS])


def cohort_of(m: int, seed: int) -> Cohort:
    draw = torch.Generator().manual_seed(seed)
    reported = {
        "loss": torch.rand(m, generator=draw, dtype=torch.float64) + 0.1,
        "class_counts": torch.randint(1, 9, (m, 3), generator=draw),
        "gradient": torch.randn(m, 43, generator=draw, dtype=torch.float64),
    }
    cohort = tiny_cohort(tiny_server(), m, seed, num_clients=m + 2, reported=reported)
    steps = torch.randint(1, 40, (m,), generator=draw).to(torch.float64)
    return replace(cohort, work=replace(cohort.work, steps=steps))


def permuted(cohort: Cohort, order: list[int]) -> Cohort:
    return replace(
        cohort,
        clients=tuple(cohort.clients[row] for row in order),
        **{name: getattr(cohort, name)[order] for name in ("p", "W", "B", "sizes")},
        work=replace(cohort.work, steps=cohort.work.steps[order]),
        reported={name: value[order] for name, value in cohort.reported.items()},
    )


def two_rounds(name: str, first: Cohort, second: Cohort) -> list[Update]:
    rule = METHODS.get(name)
    method: Method[Any] = rule(rule.Settings())  # type: ignore[call-arg]
    server = tiny_server()
    one = method.aggregate(first, method.start(first.num_clients, first.w), server)
    return [one, method.aggregate(replace(second, round=2), one.state, server)]


@given(name=METHOD, m=st.integers(1, 6), seed=st.integers(0, 99), data=st.data())
def test_the_order_of_clients_does_not_matter(name: str, m: int, seed: int, data: st.DataObject) -> None:
    cohorts = cohort_of(m, seed), cohort_of(m, seed + 1)
    order = data.draw(st.permutations(range(m)))
    plain, other = two_rounds(name, *cohorts), two_rounds(name, *(permuted(cohort, order) for cohort in cohorts))
    for one, two in zip(plain, other, strict=True):
        assert torch.allclose(one.w, two.w, atol=1e-9, rtol=1e-9)
        assert one.lambda_ is not None
        assert two.lambda_ is not None
        assert torch.allclose(one.lambda_[order], two.lambda_, atol=1e-9, rtol=0)


@pytest.mark.parametrize("name", sorted({*METHODS} - {"flower", *BOUNDS}))  # flower does what its strategy does
def test_which_rules_ignore_data_sizes_is_known(name: str) -> None:
    """So that studies can have a row of FedAvg with uniform weights beside them."""
    cohort = cohort_of(20, 0)
    turned = replace(cohort, p=cohort.p.flip(0), sizes=cohort.sizes.flip(0))
    settings = TrialConfig(**{"method.name": name}).method
    method, server = METHODS.get(name)(settings), tiny_server()
    one, other = (method.aggregate(each, method.start(each.num_clients, each.w), server).w for each in (cohort, turned))
    assert torch.equal(one, other) == (name in IGNORE_SIZES)


@given(name=st.sampled_from(BY_UPDATES), m=st.integers(1, 6), seed=st.integers(0, 99), shift=st.floats(-3, 3))
def test_a_rule_of_updates_does_not_see_where_the_origin_lies(name: str, m: int, seed: int, shift: float) -> None:
    def moved(cohort: Cohort) -> Cohort:
        return replace(cohort, w=cohort.w + shift, W=cohort.W + shift)

    cohorts = cohort_of(m, seed), cohort_of(m, seed + 1)
    plain, other = two_rounds(name, *cohorts), two_rounds(name, *map(moved, cohorts))
    for one, two in zip(plain, other, strict=True):
        assert torch.allclose(one.w + shift, two.w, atol=1e-6, rtol=0)
