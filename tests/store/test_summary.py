import numpy as np
import pytest

from fedbench.config import score_rounds
from fedbench.simulation import Record
from fedbench.store.summary import correlations, critical_round, rounds_to_accuracy, summarise


def run_of(rounds: int) -> list[Record]:
    return [
        Record(
            round=t,
            test_accuracy=t / 1000,
            test_loss=1.0 / t,
            indicators={"gamma": float(t), "r": None if t % 2 else 2.0, "norm_opt": 1.0},
        )
        for t in range(1, rounds + 1)
    ]


def test_the_final_score_is_the_mean_of_the_last_ten_rounds() -> None:
    summary = summarise(run_of(200), 200)
    assert summary["status"] == "done"
    assert summary["final_accuracy"] == pytest.approx(0.1955)
    assert (summary["best_accuracy"], summary["best_round"], summary["last_accuracy"]) == (0.2, 200, 0.2)


@pytest.mark.parametrize(
    ("rounds", "scored"),
    [(1, 1), (2, 2), (3, 3), (8, 3), (16, 3), (39, 3), (40, 4), (64, 6), (99, 9), (100, 10), (500, 10)],
)
def test_a_tenth_of_the_rounds_is_scored_but_at_least_three_and_at_most_ten(rounds: int, scored: int) -> None:
    assert score_rounds(rounds) == scored
    last = range(rounds - scored + 1, rounds + 1)
    assert summarise(run_of(rounds), rounds)["final_accuracy"] == pytest.approx(sum(last) / scored / 1000)


def test_indicators_are_means_of_rounds_90_to_110_of_200() -> None:
    summary = summarise(run_of(200), 200)
    assert summary["middle_gamma"] == pytest.approx(100)
    assert summary["middle_r"] == 2.0


def test_a_short_run_uses_what_it_has() -> None:
    summary = summarise(run_of(2), 2)
    assert summary["final_accuracy"] == pytest.approx(0.0015)
    summary = summarise(run_of(5), 5)
    assert summary["middle_gamma"] == 2.0


def test_a_diverged_run_has_a_reason_and_no_scores() -> None:
    records = [*run_of(3), Record(round=4, diverged="round 4: too large")]
    summary = summarise(records, 10)
    assert (summary["status"], summary["reason"]) == ("diverged", "round 4: too large")
    assert all(summary[key] is None for key in summary if key.startswith(("final_", "best_", "last_")))


def test_the_critical_point_is_the_first_round_without_coherence() -> None:
    values = [0.2, None, 0.1, 0.0, 0.3, -1.0]
    records = [Record(round=t, indicators={"coherence_mean": value}) for t, value in enumerate(values, 1)]
    assert critical_round(records) == 4
    assert critical_round(records[:3]) is None


def test_rounds_to_an_accuracy_are_counted_from_one() -> None:
    assert rounds_to_accuracy(run_of(200), 0.05) == 50
    assert rounds_to_accuracy(run_of(200), 0.5) is None


def test_weights_are_summed_over_the_rounds_a_client_took_part_in() -> None:
    records = [
        Record(round=1, clients=(0, 1), lambda_=(0.9, 0.1), samples=(1, 1)),
        Record(round=2, clients=(1, 2), lambda_=(0.3, 0.7), samples=(1, 1)),
    ]
    counts = np.array([[9, 1], [2, 2], [5, 3]])
    found = correlations(records, counts.sum(1), counts)
    assert found["pearson_size"] == pytest.approx(np.corrcoef([0.9, 0.4, 0.7], [10, 4, 8])[0, 1])
    assert found["pearson_degree"] is None  # client 1 is perfectly balanced: an infinite degree
