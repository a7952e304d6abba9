"""Fails when the same config gives other results than before.

If that was meant, raise SIMULATION_VERSION in config/identity.py and renew GOLDEN.
"""

from typing import Any

import pytest

from fedbench import TrialConfig, simulate
from fedbench.config.identity import SIMULATION_VERSION
from tests.conftest import TINY

GOLDEN_VERSION = 1
CASES: dict[str, dict[str, Any]] = {
    "mlp": {"clients.participation": 0.6, "clients.holdout": 0.2, "clients.corrupted": 0.4},
    "resnet8": {"model": "resnet8", "bn": "proxy", "data.partition": "hybrid", "data.train_size": 60},
    "three_node": {"data.partition": "three_node", "clients.count": 3, "data.longtail": 5.0},
    "iid": {"data.partition": "iid", "data.validation": 0.1, "clients.momentum_state": "reset"},
    "fixed_gamma": {"method.name": "fixed_gamma", "method.gamma": 0.9, "server.global_lr": 0.5},
    "fedprox": {"method.name": "fedprox", "method.mu": 0.1},
    "feddyn": {"method.name": "feddyn", "clients.participation": 0.6, "method.clip": 1.0},
    "fedadam": {"method.name": "fedadam"},
    "fedbe": {"method.name": "fedbe", "method.epochs": 3},
    "server_ft": {
        "method.name": "server_ft",
        "proxy.longtail": 10.0,
        "proxy.balanced_sampling": True,
        "proxy.size": 50,
    },
    "adaptive_gws": {"method.name": "adaptive_gws", "method.epochs": 3, "method.base": "quad"},
    "attentive_law": {"method.name": "attentive_law", "method.epochs": 9, "method.swa": True},
    "fedlaw": {"method.name": "fedlaw", "method.epochs": 3, "server.global_lr": 1.5},
    "feddf": {"method.name": "feddf", "method.epochs": 3},
    "fedlaw_swa": {"method.name": "fedlaw_swa", "method.epochs": 16},
}
# case -> (test loss, train loss, norm_w, coherence_mean) after the last round
GOLDEN: dict[str, tuple[float, float, float, float]] = {
    "mlp": (2.319117752331745, 1.9711195627212024, 11.809763259614595, -0.011902839669191432),
    "resnet8": (2.120535910410751, 1.7061806797773564, 21.275449856354616, -0.08452717705971757),
    "three_node": (2.2108330945775307, 1.7309680271892278, 11.86761250994544, 0.15713041964886962),
    "iid": (2.225688325109955, 2.2270366386861085, 11.73924398910826, 0.25784144123098784),
    "fixed_gamma": (2.247795461173575, 2.0250135399278664, 8.58470183293289, 0.05832671180626025),
    "fedprox": (1.9682002486809371, 1.838008312621545, 11.858330676663746, 0.09571774591513958),
    "feddyn": (2.1667204752841465, 2.0841521984940417, 11.921565326635344, -0.09663820120424184),
    "fedadam": (2.1212727904045985, 1.916736294556843, 11.787649710275497, 0.08365495646273413),
    "fedbe": (2.0314312808168125, 1.8924504138524751, 11.856246593983563, 0.0985838012786141),
    "server_ft": (1.761209563829162, 1.718730133562331, 12.007165177103506, 0.12594456866159276),
    "adaptive_gws": (1.870053381836415, 1.7860247045518485, 12.97448696052935, 0.10546986328718534),
    "attentive_law": (1.9460137718473387, 1.8256019680281932, 11.867269054498669, 0.09453304374800045),
    "fedlaw": (1.6755272623285093, 1.6992418686014177, 12.563469023406013, 0.12776500629138784),
    "feddf": (2.0234518729685127, 1.9029821355852339, 11.856664421744053, 0.09136034635982195),
    "fedlaw_swa": (1.8344114555372275, 1.769713767573569, 13.387173072498447, 0.10918201729095776),
}


@pytest.mark.parametrize("case", CASES)
def test_results_are_those_of_this_simulation_version(case: str) -> None:
    assert SIMULATION_VERSION == GOLDEN_VERSION
    record = list(simulate(TrialConfig(**{**TINY, **CASES[case], "precision": "float64"})))[-1]
    found = (record.test_loss, record.train_loss, record.norm_w, record.coherence_mean)
    assert found == pytest.approx(GOLDEN[case], rel=1e-8)
