from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from fedbench import TrialConfig, simulate
from fedbench.base.errors import ConfigError, UserError
from fedbench.base.fields import Strict
from fedbench.indicators import INDICATORS, Column, Indicator, Observation, RoundContext, register_indicator
from fedbench.simulation.record import columns, round_columns

Make = Callable[..., TrialConfig]


class CountSettings(Strict):
    count_clients: bool = False
    count_wrongly: bool = False


class CountClients(Indicator[CountSettings]):
    """How many clients took part."""

    name = "count_clients"
    Settings = CountSettings

    def columns(self) -> Sequence[Column]:
        return [Column("clients_there", "clients in the cohort", file="rounds")]

    def observe(self, settings: CountSettings, context: RoundContext) -> Observation:
        if settings.count_wrongly:
            return Observation({"never_announced": 1.0})
        return Observation({"clients_there": float(len(context.cohort.W))} if settings.count_clients else {})


@pytest.fixture
def counting() -> Iterator[None]:
    """An indicator from outside, for the time of a test."""
    before = TrialConfig().hash
    register_indicator(version="7")(CountClients)
    assert TrialConfig().hash == before, "an indicator that is off changes no hash"
    yield
    del INDICATORS._items["count_clients"], INDICATORS._versions["count_clients"]
    INDICATORS._sorted = sorted(INDICATORS._items.items())


@pytest.mark.usefixtures("counting")
def test_an_indicator_from_outside_has_settings_columns_and_a_place_in_the_hash(tiny: Make) -> None:
    config = tiny(indicators__count_clients=True, clients__participation=0.4)
    assert [record.clients_there for record in simulate(config)] == [2.0, 2.0, 2.0]
    assert "clients_there" in round_columns(validation=False)
    assert columns()["clients_there"].label == "clients in the cohort"
    form = config.canonical()["indicators"]
    assert (form["count_clients"], form["count_clients version"]) == (True, "7")
    assert config.hash != tiny(clients__participation=0.4).hash


@pytest.mark.usefixtures("counting")
def test_a_file_without_an_indicators_settings_can_be_read_without_the_indicator(tiny: Make) -> None:
    assert "count_clients" not in tiny().plain()["indicators"]
    assert tiny(indicators__count_clients=True).plain()["indicators"]["count_clients"] is True


def test_a_new_indicator_of_ours_changes_no_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    before = TrialConfig().hash
    with monkeypatch.context() as patched:
        patched.setattr(INDICATORS, "_sorted", [*INDICATORS.items(), ("count_clients", CountClients())])
        assert TrialConfig().hash == before
        assert TrialConfig(**{"indicators.count_clients": True}).hash != before


@pytest.mark.usefixtures("counting")
def test_what_was_not_announced_cannot_be_recorded(tiny: Make) -> None:
    with pytest.raises(UserError, match="indicator 'count_clients' records the column 'never_announced' without"):
        next(iter(simulate(tiny(indicators__count_wrongly=True))))


def test_a_record_knows_its_columns_and_no_others(tiny: Make) -> None:
    record = next(iter(simulate(tiny(indicators__coherence="off"))))
    assert record.gamma == 1.0
    assert record.coherence_mean is None
    with pytest.raises(AttributeError, match=r"did you mean 'coherence_mean'\?"):
        _ = record.coherence_meen
    assert {"test_accuracy", "gamma", "norm_w"} <= record.numbers().keys()
    assert "coherence_mean" not in record.numbers()


class ClashSettings(Strict):
    clash: bool = False


class ClashingFile(Indicator[ClashSettings]):
    """Has a table that every trial has."""

    name = "clashing"
    Settings = ClashSettings
    tables = {"rounds": ("x",)}


class Unasked(Indicator[Strict]):
    """Always there."""

    name = "unasked"


class TakenSettings(Strict):
    landscape: int = 3


class Taken(Indicator[TakenSettings]):
    """Has a setting that another one has."""

    name = "taken"
    Settings = TakenSettings


@pytest.mark.parametrize(
    ("indicator", "message"),
    [
        (Unasked, "needs a setting that turns it on"),
        (Taken, "'flatness' has 'landscape', too; choose another"),
        (ClashingFile, "every trial has a file 'rounds'"),
    ],
)
def test_an_indicator_from_outside_that_would_mislead_is_refused(indicator: type[Indicator[Any]], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        register_indicator(version="1")(indicator)
    assert indicator.name not in INDICATORS
