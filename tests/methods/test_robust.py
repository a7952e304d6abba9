"""The robust rules against plain computations in float64, client by client and coordinate by coordinate."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from fedbench import ConfigError, TrialConfig
from fedbench.methods import METHODS, Cohort, Update, geometry
from fedbench.methods import robust as shared
from fedbench.methods.base import State
from fedbench.simulation import Simulation
from fedbench.simulation.updates import checked_update
from tests.methods.helpers import make_cohort, tiny_cohort, tiny_server

Make = Callable[..., TrialConfig]
Matrix = NDArray[np.float64]

BY_COORDINATE = ["median", "trimmed_mean", "bulyan"]
WEIGHTED = ["krum", "geometric_median", "centered_clipping"]
RULES = BY_COORDINATE + WEIGHTED
PRE = ["none", "nnm"]
SERVER = tiny_server()
M, P, F = 20, 23, 4


def method_of(name: str, **settings: Any) -> Any:
    method = METHODS.get(name)
    return method(method.Settings(**settings))


def aggregate(name: str, cohort: Cohort, state: State | None = None, **settings: Any) -> Update:
    """One round, held to what a method promises."""
    method = method_of(name, **settings)
    state = method.start(cohort.num_clients, cohort.w) if state is None else state
    return checked_update(method.aggregate, cohort, state, SERVER)


def cohort_of(m: int = M, seed: int = 0, **changes: Any) -> Cohort:
    """Models of a few clusters and different spreads, so that rules differ; sizes differ, too."""
    rng = np.random.default_rng(seed)
    w = rng.normal(size=P)
    spread = rng.uniform(0.2, 2.0, (m, 1))
    W = w + 0.5 + spread * rng.normal(size=(m, P)) + 1.5 * (np.arange(m) % 4 == 0)[:, None]
    p = rng.uniform(0.5, 2.0, m)
    fields = {"p": p / p.sum(), "w": w, "W": W, "B": rng.uniform(size=(m, 6)), "buffers": np.zeros(6)}
    return make_cohort(**{name: torch.from_numpy(value) for name, value in fields.items()} | changes)


# The rules as one would first write them down: from vectors X [m, P], with statistics B [m, Q], to both results.


def nearest(X: Matrix, i: int) -> list[int]:
    return sorted(range(len(X)), key=lambda j: (j != i, float(np.sum((X[i] - X[j]) ** 2))))


def naive_mixing(X: Matrix, pre: str, f: int) -> Callable[[Matrix], Matrix]:
    """Takes rows that belong to the vectors X to their means over nearest neighbours."""
    groups = [sorted(nearest(X, i)[: len(X) - f] if pre == "nnm" else [i]) for i in range(len(X))]
    return lambda Y: np.array([Y[group].mean(0) for group in groups])


def krum_scores(X: Matrix, rows: list[int], neighbours: int) -> dict[int, float]:
    distances = {i: sorted(float(np.sum((X[i] - X[j]) ** 2)) for j in rows if j != i) for i in rows}
    return {i: sum(near[:neighbours]) for i, near in distances.items()}


def naive_median(X: Matrix, B: Matrix, f: int) -> tuple[Matrix, Matrix]:
    return np.median(X, axis=0), np.median(B, axis=0)


def naive_trimmed_mean(X: Matrix, B: Matrix, f: int) -> tuple[Matrix, Matrix]:
    def rule(Y: Matrix) -> Matrix:
        return np.array([np.mean(sorted(column)[f : len(column) - f]) for column in Y.T])

    return rule(X), rule(B)


def naive_krum(X: Matrix, B: Matrix, f: int, keep: int = 1) -> tuple[Matrix, Matrix]:
    scores = krum_scores(X, list(range(len(X))), len(X) - f - 2)
    best = sorted(scores, key=lambda i: scores[i])[:keep]
    return X[best].mean(0), B[best].mean(0)


def naive_bulyan(X: Matrix, B: Matrix, f: int) -> tuple[Matrix, Matrix]:
    left, chosen = list(range(len(X))), list[int]()
    while len(chosen) < len(X) - 2 * f:
        scores = krum_scores(X, left, max(1, len(left) - f - 2))
        chosen.append(min(left, key=lambda i: scores[i]))
        left.remove(chosen[-1])

    def rule(Y: Matrix) -> Matrix:
        kept = len(chosen) - 2 * f
        closest = [sorted(column, key=lambda v: abs(v - np.median(column)))[:kept] for column in Y[chosen].T]
        return np.array([np.mean(values) for values in closest])

    return rule(X), rule(B)


def naive_geometric_median(X: Matrix, B: Matrix, p: Matrix) -> tuple[Matrix, Matrix]:
    z, weights = p @ X, p
    for _ in range(3000):
        weights = p / np.maximum(1e-6, np.linalg.norm(X - z, axis=1))
        weights = weights / weights.sum()
        z = weights @ X
    return z, weights @ B


def naive_clipping(D: Matrix, v: Matrix, iterations: int, tau: float | None) -> tuple[Matrix, Matrix]:
    """The new v, and the share of it that comes from each update after one iteration."""
    for _ in range(iterations):
        distances = np.linalg.norm(D - v, axis=1)
        factors = np.minimum(1, (np.median(distances) if tau is None else tau) / distances)
        v = v + np.mean((D - v) * factors[:, None], axis=0)
    return v, factors / factors.sum()


@pytest.fixture(autouse=True)
def several_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """P is not a multiple of it."""
    monkeypatch.setattr(geometry, "COLUMNS", 7)


@pytest.mark.parametrize("pre", PRE)
@pytest.mark.parametrize("m", [M, 19, 23])
@pytest.mark.parametrize(
    ("name", "settings", "rule"),
    [
        ("median", {}, naive_median),
        ("trimmed_mean", {}, naive_trimmed_mean),
        ("bulyan", {}, naive_bulyan),
        ("krum", {}, naive_krum),
        ("krum", {"keep": 5}, lambda X, B, f: naive_krum(X, B, f, 5)),
        ("krum", {"keep": None}, lambda X, B, f: naive_krum(X, B, f, len(X) - f)),
    ],
    ids=["median", "trimmed_mean", "bulyan", "krum", "krum of 5", "multi-Krum"],
)
def test_an_unweighted_rule_is_the_plain_computation(
    name: str, settings: dict[str, Any], rule: Callable[..., tuple[Matrix, Matrix]], m: int, pre: str
) -> None:
    for seed in range(3):
        cohort, f = cohort_of(m, seed), round(0.17 * m)
        W, B = cohort.W.numpy(), cohort.B.numpy()
        mixed = naive_mixing(W, pre, f)
        w, statistics = rule(mixed(W), mixed(B), f)
        update = aggregate(name, cohort, f=0.17, pre=pre, **settings)
        assert np.allclose(update.w, w, rtol=0, atol=1e-12)
        if name in BY_COORDINATE:
            assert update.lambda_ is None
            assert update.buffers is not None
            assert np.allclose(update.buffers, statistics, rtol=0, atol=1e-12)
        else:
            assert update.lambda_ is not None
            assert np.allclose(update.lambda_ @ cohort.B, statistics, rtol=0, atol=1e-12)


@pytest.mark.parametrize("pre", PRE)
def test_the_geometric_median_is_the_plain_iteration_to_convergence_and_stationary(pre: str) -> None:
    cohort = cohort_of()
    W, B, p = cohort.W.numpy(), cohort.B.numpy(), cohort.p.numpy()
    mixed = naive_mixing(W, pre, F)
    w, statistics = naive_geometric_median(mixed(W), mixed(B), p)
    update = aggregate("geometric_median", cohort, pre=pre, tolerance=0.0, iterations=3000)
    assert update.lambda_ is not None
    assert np.allclose(update.w, w, rtol=0, atol=1e-9)
    assert np.allclose(update.lambda_ @ cohort.B, statistics, rtol=0, atol=1e-9)
    away = update.w.numpy() - mixed(W)
    assert np.linalg.norm(p @ (away / np.linalg.norm(away, axis=1)[:, None])) < 1e-7
    assert np.allclose(aggregate("geometric_median", cohort, pre=pre).w, w, rtol=0, atol=1e-5)  # with the defaults


def test_the_geometric_median_of_points_on_a_line_is_the_middle_one() -> None:
    W = torch.tensor([[1.0, 2, 3], [4, 5, 6], [7, 8, 9]], dtype=torch.float64)
    p = torch.tensor([0.3, 0.3, 0.4], dtype=torch.float64)
    update = aggregate("geometric_median", make_cohort(p=p, w=torch.zeros(3, dtype=torch.float64), W=W))
    assert torch.allclose(update.w, W[1], rtol=0, atol=1e-3)


@pytest.mark.parametrize("pre", PRE)
@pytest.mark.parametrize(("iterations", "tau"), [(1, None), (4, None), (1, 1.5), (3, 4.0), (2, 1e6)])
def test_centered_clipping_is_the_plain_iteration_over_rounds(pre: str, iterations: int, tau: float | None) -> None:
    state, v = None, np.zeros(P)
    for seed in range(3):
        cohort = cohort_of(seed=seed)
        W, w = cohort.W.numpy(), cohort.w.numpy()
        mixed = naive_mixing(W, pre, F)
        v, factors = naive_clipping(mixed(W) - w, v, iterations, tau)
        update = aggregate("centered_clipping", cohort, state, pre=pre, iterations=iterations, tau=tau)
        state = update.state
        assert np.allclose(update.w, w + v, rtol=0, atol=1e-12)
        assert np.allclose(update.state["v"], v, rtol=0, atol=1e-12)
        if iterations == 1:
            assert update.lambda_ is not None
            assert np.allclose(update.lambda_, factors @ mixed(np.eye(M)), rtol=0, atol=1e-12)


@pytest.mark.parametrize("pre", PRE)
@pytest.mark.parametrize("name", RULES)
def test_the_server_step_goes_part_of_the_way(name: str, pre: str) -> None:
    whole = aggregate(name, cohort_of(), pre=pre)
    cohort = cohort_of(global_lr=0.3)
    part = aggregate(name, cohort, pre=pre)
    assert torch.allclose(part.w, 0.7 * cohort.w + 0.3 * whole.w, rtol=0, atol=1e-12)
    assert torch.equal(part.state.get("v", cohort.w), whole.state.get("v", cohort.w))  # the centre is not scaled


SETTINGS = st.tuples(st.sampled_from(RULES), st.sampled_from(PRE), st.integers(15, 24), st.integers(0, 9999))


@given(SETTINGS)
def test_the_order_of_clients_does_not_matter(case: tuple[str, str, int, int]) -> None:
    name, pre, m, seed = case
    cohort = cohort_of(m, seed)
    order = torch.from_numpy(np.random.default_rng(seed).permutation(m))
    shuffled = make_cohort(p=cohort.p[order], w=cohort.w, W=cohort.W[order])
    one, other = (aggregate(name, c, f=0.2 if m >= 19 else 0.15, pre=pre) for c in (cohort, shuffled))
    assert torch.allclose(one.w, other.w, rtol=0, atol=1e-9)
    if one.lambda_ is not None and other.lambda_ is not None and pre == "none":
        assert torch.allclose(one.lambda_[order], other.lambda_, rtol=0, atol=1e-9)


@given(SETTINGS, st.floats(-50, 50))
def test_a_shift_of_all_models_shifts_the_result(case: tuple[str, str, int, int], size: float) -> None:
    name, pre, m, seed = case
    cohort = cohort_of(m, seed)
    shift = size * torch.from_numpy(np.random.default_rng(seed).normal(size=P))
    moved = make_cohort(p=cohort.p, w=cohort.w + shift, W=cohort.W + shift)
    one, other = (aggregate(name, c, f=0.2 if m >= 19 else 0.15, pre=pre) for c in (cohort, moved))
    assert torch.allclose(one.w + shift, other.w, rtol=0, atol=1e-9)


def attacked(kind: str) -> tuple[Cohort, Tensor, float]:
    """A cohort with F corrupt clients, the honest clients' mean, and their largest distance from it."""
    cohort = cohort_of(p=torch.full((M,), 1 / M, dtype=torch.float64))
    rng = np.random.default_rng(1)
    W = cohort.W.clone()
    direction = torch.from_numpy(rng.normal(size=(F, P) if kind == "each its own" else P))
    W[:F] = cohort.w + (-1e6 if kind == "against" else 1e6) * direction
    honest = W[F:].mean(0)
    return make_cohort(p=cohort.p, w=cohort.w, W=W), honest, float((W[F:] - honest).norm(dim=1).max())


@pytest.mark.parametrize("kind", ["all alike", "each its own", "against"])
@pytest.mark.parametrize("pre", PRE)
@pytest.mark.parametrize("name", RULES)
def test_a_minority_cannot_move_it_far(name: str, pre: str, kind: str) -> None:
    cohort, honest, spread = attacked(kind)
    assert float((aggregate("fedavg", cohort).w - honest).norm()) > 1e4 * spread
    assert float((aggregate(name, cohort, pre=pre).w - honest).norm()) < 3 * spread


@pytest.mark.parametrize("name", WEIGHTED)
def test_corrupt_clients_have_little_weight(name: str) -> None:
    cohort, _, _ = attacked("each its own")
    lambda_ = aggregate(name, cohort).lambda_
    assert lambda_ is not None
    assert float(lambda_[:F].sum()) < 1e-4


@pytest.mark.parametrize(("away", "error"), [(1e-6, 1e-9), (1.0, 0.1)])
def test_distances_between_nearly_equal_float32_models_hold(away: float, error: float) -> None:
    rng = np.random.default_rng(0)
    base = rng.normal(size=400).astype(np.float32)
    ulps = 1.2e-7 * np.arange(1, 13)[:, None] * rng.normal(size=(12, 400))
    W = (base * (1 + ulps)).astype(np.float32)  # client i differs by some i units in the last place
    w = (base + away * rng.normal(size=400)).astype(np.float32)
    exact = np.array([[np.sum((x - y) ** 2) for y in W.astype(float)] for x in W.astype(float)])
    found = shared.squared_distances(geometry.gram(torch.from_numpy(W), torch.from_numpy(w))).numpy()
    different = exact > 0
    assert np.max(np.abs(found - exact)[different] / exact[different]) < error
    cohort = make_cohort(p=torch.full((12,), 1 / 12), w=torch.from_numpy(w), W=torch.from_numpy(W))
    chosen, _ = naive_krum(W.astype(float), W.astype(float), 2)
    assert np.array_equal(aggregate("krum", cohort).w.numpy(), chosen.astype(np.float32))
    for name in RULES:
        assert np.allclose(aggregate(name, cohort).w, base, atol=2e-5)


@pytest.mark.parametrize("pre", PRE)
@pytest.mark.parametrize("name", RULES)
def test_equal_models_stay_what_they_are(name: str, pre: str) -> None:
    w = torch.from_numpy(np.random.default_rng(0).normal(size=P))
    p = torch.full((M,), 1 / M, dtype=torch.float64)
    assert torch.allclose(aggregate(name, make_cohort(p=p, w=w, W=w.expand(M, -1) + 1), pre=pre).w, w + 1, atol=1e-12)
    assert torch.allclose(aggregate(name, make_cohort(p=p, w=w, W=w.repeat(M, 1)), pre=pre).w, w, atol=1e-12)


@pytest.mark.parametrize("bn", ["average", "local", "proxy"])
@pytest.mark.parametrize("name", RULES)
def test_running_statistics_are_left_to_the_rule_for_them_or_follow_the_same_rule(name: str, bn: str) -> None:
    server = tiny_server(batch_norm=True)
    cohort = tiny_cohort(server, m=M, bn=bn)
    method = method_of(name)
    update = checked_update(method.aggregate, cohort, method.start(M, cohort.w), server)
    if name in BY_COORDINATE and bn != "proxy":
        assert update.buffers is not None
        assert bool((update.buffers >= cohort.B.min(0).values).all() & (update.buffers <= cohort.B.max(0).values).all())
    else:
        assert update.buffers is None


LIMITS: list[dict[str, Any]] = [
    {"method__name": "trimmed_mean", "method__f": 0.0},
    {"method__name": "krum", "method__f": 0.0, "method__keep": None},
    {"method__name": "median", "method__f": 0.0, "method__pre": "nnm"},
    {"method__name": "bulyan", "method__f": 0.0, "method__pre": "nnm"},
    {"method__name": "bulyan", "method__f": 0.0},
    {"method__name": "centered_clipping", "method__tau": 1e9},
    {"method__name": "geometric_median", "method__nu": 1e9},
]


@pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: " ".join(map(str, limit.values())))
def test_at_its_limit_a_rule_is_fedavg_with_equal_sizes(
    tiny: Make, limit: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(geometry, "COLUMNS", 4096)

    def final(**settings: Any) -> Simulation:
        equal = {"data__partition": "iid", "data__train_size": 20, "data__test_size": 30, "model": "resnet8"}
        simulation = Simulation(tiny(precision="float64", rounds=1, **equal, **settings))
        simulation.step()
        return simulation

    plain, rule = final(), final(**limit)
    assert float((plain.state.w - rule.state.w).abs().max()) < 1e-12
    assert float((plain.state.buffers - rule.state.buffers).abs().max()) < 1e-12


REFUSED: list[tuple[dict[str, Any], str]] = [
    (
        {"name": "krum", "f": 0.45},
        "method.f = 0.45: for 9 corrupt clients method.name=krum needs 2 * 9 + 3 = 21 clients in a round, "
        "there are 20; must be at most 0.4 (8 of 20)",
    ),
    ({"name": "bulyan", "f": 0.3}, "4 * 6 + 3 = 27 clients in a round, there are 20; must be at most 0.2 (4 of 20)"),
    (
        {"name": "trimmed_mean", "f": 0.49},
        "2 * 10 + 1 = 21 clients in a round, there are 20; must be at most 0.45 (9 of 20)",
    ),
    ({"name": "median", "f": 0.49, "pre": "nnm"}, "method.pre=nnm needs 2 * 10 + 1 = 21 clients"),
    ({"name": "geometric_median", "f": 0.49, "pre": "nnm"}, "must be at most 0.45 (9 of 20)"),
    ({"name": "centered_clipping", "f": 0.49, "pre": "nnm"}, "must be at most 0.45 (9 of 20)"),
    ({"name": "krum", "keep": 21}, "method.keep = 21: there are 20 clients in a round; must be at most 20"),
    ({"name": "krum", "f": 0.0, "m": 2}, "method.name=krum needs at least 3 clients in a round, there are 2"),
    ({"name": "median", "f": 0.5}, "method.f = 0.5: must be a number at least 0 and below 0.5"),
    ({"name": "krum", "pre": "mix"}, "method.pre = 'mix': must be one of none, nnm"),
]


def config(m: int = 20, **method: Any) -> TrialConfig:
    return TrialConfig(**{"clients.count": 2 * m, "clients.participation": 0.5, "method": method})


@pytest.mark.parametrize(("settings", "message"), REFUSED)
def test_where_a_rule_is_not_defined_the_config_is_refused_in_one_line(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        config(**settings)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("name", ["krum", "bulyan", "trimmed_mean"])
def test_the_share_that_a_refusal_names_is_the_largest_that_runs(name: str) -> None:
    needs = METHODS.get(name).Settings.needs  # type: ignore[attr-defined]
    for m in range(needs.plus, 60):
        most = (m - needs.plus) // needs.times
        settings = method_of(name, f=float(f"{most / m:g}")).settings
        assert settings.corrupt(m) == most
        assert settings.check(m) is None
        if m < 20:
            assert aggregate(name, cohort_of(m), f=settings.f).w.isfinite().all()
        if (most + 1) / m < 0.5:
            assert f"must be at most {most / m:g} " in method_of(name, f=(most + 1) / m).settings.check(m)


@pytest.mark.parametrize("name", RULES)
def test_what_cannot_change_a_result_does_not_change_the_hash(name: str) -> None:
    unused = name in ("median", "geometric_median", "centered_clipping")
    assert (config(name=name, f=0.1).hash == config(name=name, f=0.2).hash) == unused
    assert config(name=name, f=0.1, pre="nnm").hash != config(name=name, f=0.2, pre="nnm").hash
    assert config(name=name).hash != config(name=name, pre="nnm").hash
