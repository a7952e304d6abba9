from collections.abc import Callable

from fedbench import TrialConfig, simulate
from fedbench.simulation import Callback, Record, Simulation, drive
from fedbench.simulation.checkpoint import Checkpoints, restore
from fedbench.simulation.drive import rounds
from tests.conftest import timeless

Make = Callable[..., TrialConfig]


class Diary(Callback[Simulation, Record]):
    """Writes down what it hears."""

    def __init__(self, name: str, pages: list[str]) -> None:
        self.name, self.pages = name, pages

    def start(self, run: Simulation) -> None:
        self.pages.append(f"{self.name} start after {run.state.round}")

    def round(self, run: Simulation, seen: Record) -> None:
        self.pages.append(f"{self.name} round {seen.round}")

    def end(self, run: Simulation) -> None:
        self.pages.append(f"{self.name} end after {run.state.round}")


def test_all_listeners_hear_of_everything_in_their_order(tiny: Make) -> None:
    pages: list[str] = []
    drive(Simulation(tiny(rounds=2)), [Diary("a", pages), Diary("b", pages)])
    told = ["start after 0", "round 1", "round 2", "end after 2"]
    assert pages == [f"{name} {what}" for what in told for name in ("a", "b")]


def test_a_run_that_is_stopped_hears_no_end_and_goes_on_where_it_was(tiny: Make) -> None:
    pages: list[str] = []
    simulation = Simulation(tiny(rounds=4))
    drive(simulation, [Diary("a", pages)], stop=lambda: simulation.state.round == 2)
    assert pages == ["a start after 0", "a round 1", "a round 2"]
    drive(simulation, [Diary("a", pages)])
    assert pages[3:] == ["a start after 2", "a round 3", "a round 4", "a end after 4"]
    assert timeless(simulation.state.history) == timeless(list(simulate(tiny(rounds=4))))


def test_stopping_in_the_last_round_is_the_end(tiny: Make) -> None:
    pages: list[str] = []
    drive(Simulation(tiny(rounds=2)), [Diary("a", pages)], stop=lambda: len(pages) == 3)
    assert pages[-1] == "a end after 2"


def test_a_diverged_run_ends(tiny: Make) -> None:
    pages: list[str] = []
    drive(Simulation(tiny(clients__lr=1e30)), [Diary("a", pages)])
    assert pages == ["a start after 0", "a round 1", "a end after 1"]


def test_a_run_can_be_taken_a_round_at_a_time(tiny: Make) -> None:
    simulation = Simulation(tiny(rounds=3))
    steps = rounds(simulation)
    assert next(steps).round == 1
    assert simulation.state.round == 1
    assert [record.round for record in steps] == [2, 3]


def test_listeners_have_heard_of_every_round_that_a_checkpoint_holds(tiny: Make, tmp_path: object) -> None:
    from pathlib import Path

    folder, pages = Path(str(tmp_path)), list[str]()
    simulation = Simulation(tiny(rounds=5))
    drive(simulation, [Diary("a", pages), Checkpoints(folder, rounds=2)], stop=lambda: simulation.state.round == 3)
    fresh = Simulation(tiny(rounds=5))
    assert restore(fresh, folder) == []
    assert fresh.state.round == 2
    assert "a round 2" in pages
