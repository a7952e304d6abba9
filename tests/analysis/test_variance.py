"""Variance components of a study: from stored trials to the table, the sentence, the bars and the page."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedbench.analysis.trials import stored_trials
from fedbench.analysis.variance import REST, VarianceRow, study_variance
from fedbench.base.errors import UserError
from fedbench.render.report import make_report
from fedbench.render.study_sheets import variance_sheet
from fedbench.specs.expand import ScaledStudy, expand
from fedbench.store.store import Store
from tests.analysis.helpers import fill

STUDY = """
title: Draws
shows: Something.
base: {data.train_size: 200, data.test_size: 200, clients.count: 2, rounds: 2, proxy.size: 20, proxy.pool: 100}
grid:
  method:
    FedAvg: {method.name: fedavg}
    FedLAW: {method.name: fedlaw, method.epochs: 2}
  proxy.draw: [0, 1, 2, 3, 4, 5]
  other draws:
    "0": {data.draw: 0, init.draw: 0}
    "1": {data.draw: 1, init.draw: 1}
    "2": {data.draw: 2, init.draw: 2}
    "3": {data.draw: 3, init.draw: 3}
    "4": {data.draw: 4, init.draw: 4}
    "5": {data.draw: 5, init.draw: 5}
baseline: {method: FedAvg}
tables: {accuracy: {rows: [method, other draws], columns: [proxy.draw]}}
variance:
  rows: [method]
  sources: {the proxy images: proxy.draw, the partition: data.draw, the initial model: init.draw}
seeds: [8]
scales: {quick: {}}
"""
RNG = np.random.default_rng(2)
BY_PROXY, BY_OTHER, NOISE = 0.02 * RNG.standard_normal(6), 0.01 * RNG.standard_normal(6), RNG.standard_normal((6, 6))


def accuracy(labels: Mapping[str, Any], seed: int) -> float:
    """FedAvg does not see the proxy set; FedLAW depends mostly on it."""
    draw, other = labels["proxy.draw"], int(labels["other draws"])
    base = 0.8 + BY_OTHER[other]
    return float(base if labels["method"] == "FedAvg" else base + BY_PROXY[draw] + 0.001 * NOISE[draw, other])


def expanded(folder: Path, text: str = STUDY) -> ScaledStudy:
    (folder / "draws.yaml").write_text(text)
    return expand(str(folder / "draws.yaml"), "quick", changes={}, only={}, seeds=None)


@pytest.fixture
def study(tmp_path: Path) -> ScaledStudy:
    return expanded(tmp_path)


def rows_of(study: ScaledStudy, store: Store) -> dict[tuple[str, bool], VarianceRow]:
    rows = study_variance(study, stored_trials(study, store))
    return {(str(row.labels["method"]), row.difference): row for row in rows}


def test_the_components_are_those_of_the_draws_behind_the_trials(study: ScaledStudy, tmp_path: Path) -> None:
    store = Store(tmp_path / "results")
    fill(store, study, accuracy)
    rows = rows_of(study, store)
    assert list(rows) == [("FedAvg", False), ("FedLAW", False), ("FedLAW", True)]
    law, gain = rows["FedLAW", False], rows["FedLAW", True]
    # The partition and the initial model always change together, so they are one source.
    assert [share.source for share in law.shares] == [
        "the proxy images",
        "the partition and the initial model",
        REST,
    ]
    assert law.trials == 36
    assert law.shares[0].component.variance == pytest.approx(100**2 * BY_PROXY.var(ddof=1), rel=0.05)
    assert law.shares[1].component.variance == pytest.approx(100**2 * BY_OTHER.var(ddof=1), rel=0.05)
    assert gain.shares[0].component.share > 0.99, "the other draws cancel in the difference to FedAvg"


def test_a_method_that_sees_no_proxy_image_does_not_depend_on_their_draw(study: ScaledStudy, tmp_path: Path) -> None:
    store = Store(tmp_path / "results")
    fill(store, study, accuracy)
    row = rows_of(study, store)["FedAvg", False]
    assert row.trials == 6, "the same trial at every draw of the proxy set counts once"
    assert row.unused == ["the proxy images"]
    assert [share.source for share in row.shares] == ["the partition and the initial model"]
    assert row.std == pytest.approx(100 * BY_OTHER.std(ddof=1))
    assert row.sentence == ""


def test_the_sentence_carries_its_interval_and_is_left_out_where_that_is_wide(
    study: ScaledStudy, tmp_path: Path
) -> None:
    store = Store(tmp_path / "results")
    fill(store, study, accuracy)
    row = rows_of(study, store)["FedLAW", True]
    assert row.sentence.startswith("Of the variance of FedLAW (difference in test accuracy), 100 % [100, 100")
    assert row.sentence.endswith("] comes from the proxy images")

    equal = Store(tmp_path / "equal")  # both sources count alike: six levels of each cannot tell which is larger
    larger = BY_PROXY.std() / BY_OTHER.std() - 1
    fill(equal, study, lambda labels, seed: accuracy(labels, seed) + larger * BY_OTHER[int(labels["other draws"])])
    wide = rows_of(study, equal)["FedLAW", False]
    part = wide.shares[0].component
    assert 100 * (part.high - part.low) > 50
    assert wide.sentence == ""


def test_a_trial_that_is_missing_or_diverged_leaves_no_components_and_the_table_says_why(
    study: ScaledStudy, tmp_path: Path
) -> None:
    store = Store(tmp_path / "results")

    def outcome(labels: Mapping[str, Any], seed: int) -> Any:
        point = (labels["method"], labels["proxy.draw"], labels["other draws"])
        return {("FedLAW", 0, "0"): "diverged", ("FedLAW", 1, "0"): None}.get(point, accuracy(labels, seed))

    fill(store, study, outcome)
    row = rows_of(study, store)["FedLAW", False]
    assert row.shares == ()
    assert row.problem == "2 of 36 trials have no number"
    sheet = variance_sheet(study, list(rows_of(study, store).values()))
    assert "FedLAW, test accuracy: 2 of 36 trials have no number." in sheet.remarks


def test_a_report_has_the_components_as_table_bars_and_section_of_the_page(study: ScaledStudy, tmp_path: Path) -> None:
    store = Store(tmp_path / "results")
    fill(store, study, accuracy)
    report = make_report(study, store)
    folder = report.files[0].parent
    frame = pd.read_csv(folder / "variance.csv")
    assert set(frame.columns) >= {"method", "of", "source", "variance", "share", "low95", "high95", "trials"}
    assert frame.groupby(["method", "of"]).share.sum().round(6).tolist() == [100, 100, 100]
    for ending in ("md", "tex", "png", "svg", "pdf"):
        assert (folder / f"variance.{ending}").stat().st_size > 0
    sentence = next(row.sentence for row in report.variance if row.sentence)
    assert sentence in (folder / "variance.md").read_text()
    page = (folder / "report.html").read_text()
    assert sentence in page
    assert "variance components as stacked bars" in page
    assert report.ranks is None, "repetitions of one experiment are not ranked as if they were different ones"


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        ("rows: [method]\n", "rows: [methods]\n", "variance: unknown axis 'methods'"),
        ("the partition: data.draw", "the partition: data.drow", "unknown setting 'data.drow'"),
        (
            ", the initial model: init.draw",
            "",
            "variance: the axis 'other draws' changes init.draw, which is no source; name the axis under rows",
        ),
        ("seeds: [8]", "seeds: [8, 9]", "variance: there are several seeds; name one seed, or seed under sources"),
    ],
)
def test_a_study_that_asks_for_impossible_components_is_refused_in_one_line(
    tmp_path: Path, before: str, after: str, line: str
) -> None:
    assert before in STUDY
    with pytest.raises(UserError) as raised:
        expanded(tmp_path, STUDY.replace(before, after))
    assert line in str(raised.value)
    assert "\n" not in str(raised.value)


def test_seeds_can_be_a_source(tmp_path: Path) -> None:
    text = STUDY.replace("seeds: [8]", "seeds: [8, 9, 10]").replace(
        "the initial model: init.draw", "the initial model: init.draw, the seed: seed"
    )
    study, store = expanded(tmp_path, text), Store(tmp_path / "results")
    fill(store, study, lambda labels, seed: accuracy(labels, seed) + 0.05 * (seed - 9))
    row = rows_of(study, store)["FedLAW", False]
    assert row.trials == 108
    assert max(row.shares, key=lambda share: share.component.share).source == "the seed"
