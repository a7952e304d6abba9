"""The canonical form of a config and its hash, which are equal for configs of the same experiment."""

import hashlib
import json
from typing import TYPE_CHECKING, Any

from fedbench.base.fields import hashed_settings
from fedbench.base.settings import Settings
from fedbench.corruptions import CORRUPTIONS
from fedbench.data.base import DATASETS
from fedbench.data.partitions import PARTITIONS
from fedbench.indicators.base import canonical_indicators
from fedbench.methods import METHODS
from fedbench.models import MODELS
from fedbench.models.norm import BATCH
from fedbench.shifts import NO_SHIFT, SHIFTS

if TYPE_CHECKING:
    from fedbench.config.schema import TrialConfig

LAST_ROUNDS = 10  # the last 10 rounds are always evaluated; the final score is the mean of at most that many
FEWEST_SCORED = 3  # rounds

# Raise it whenever the same config gives other results than before; tests/test_golden.py fails until then.
SIMULATION_VERSION = 1

DRAWS = ("init", "batches", "participation")  # groups that are left out of the form if default
PAPERS_CORRUPTION = "swap"  # left out of the form: it was the only corruption when the form was defined
ALPHAS = ("alpha", "alpha2")  # null in the form if the partition does not have the setting


def score_rounds(rounds: int) -> int:
    """The number of last rounds whose mean is a run's final score: a tenth of all, but at least 3 and at most 10."""
    return min(rounds, LAST_ROUNDS, max(FEWEST_SCORED, rounds // 10))


def canonical(config: "TrialConfig") -> Settings:
    """The config as plain data, without `run`; settings that cannot change a result have a fixed value."""
    form = config.model_dump(mode="json", exclude={"run", "method", "indicators", *DRAWS})
    form |= {"method": config.method.canonical(), "indicators": canonical_indicators(config.indicators)}
    form |= {group: counts for group in DRAWS if (counts := hashed_settings(getattr(config, group), ["path"]))}
    if config.participants == config.clients.count:
        form.pop("participation", None)  # all clients take part, so nothing is drawn
    form["data"] = hashed_settings(config.data, config.data.unused())
    form["data"] |= {key: form["data"].get(key) for key in ALPHAS}
    form["data"].pop("path", None)
    if config.data.content:
        form["data"]["content"] = config.data.content.split()[0]  # the digest; all else follows from it
    form["data"] |= {
        "train_size": config.train_samples,
        "test_size": config.test_samples,
        "validation": config.validation_samples,
    }
    form["eval_every"] = min(config.eval_every, max(1, config.rounds - LAST_ROUNDS + 1))  # larger values skip as many
    if config.norm == BATCH:
        del form["norm"]
    if not config.uses_batch_norm:
        form["bn"] = "average"
    form["clients"] = hashed_settings(config.clients)
    _normalise_clients(form["clients"], config)
    if config.uses_proxy:
        form["proxy"] = {**hashed_settings(config.proxy), "pool": config.proxy_pool}
        if config.proxy.longtail == 1:
            form["proxy"]["longtail_total"] = "head"
    else:
        form["proxy"] = {"pool": config.proxy_pool}
        if config.proxy.rule != "own" and config.proxy_pool:
            form["proxy"]["rule"] = config.proxy.rule  # it determines which images are left for evaluation
    form["versions"] = versions(config)
    return form


def _normalise_clients(clients: Settings, config: "TrialConfig") -> None:
    clients |= {"participation": config.participants, "corrupted": config.corrupted_clients}
    if not config.all_train:
        clients.pop("train", None)
    if not config.clients.straggler:
        clients.pop("min_epochs", None)
    if config.clients.shift_groups == config.clients.count:
        clients.pop("shift_groups")  # as null
    if (
        config.clients.shift != NO_SHIFT
        and config.clients.shift_scale == SHIFTS.get(config.clients.shift).default_scale
    ):
        clients.pop("shift_scale", None)
    if config.clients.holdout * config.train_samples < 1:
        clients["holdout"] = 0
    if not config.clients.momentum:
        clients["momentum_state"] = "reset"
    clients |= _corruption(clients.pop("corruption"), clients.pop("corruption_scale"), config)


def _corruption(name: str, scale: float | None, config: "TrialConfig") -> Settings:
    """The corruption's part of the canonical form.

    It is empty if no client is corrupted or for the paper's corruption. The scale is left out if it is the default.
    """
    if not config.corrupted_clients or name == PAPERS_CORRUPTION:
        return {}
    if scale is None:
        return {"corruption": name}
    m, corruption = config.participants + config.method.proxy_as_client, CORRUPTIONS.get(name)
    sizes = range(1, m + 1) if config.clients.dropout else [m]
    defaults = {corruption.default_scale(i, k) for i in sizes for k in range(1, min(i, config.corrupted_clients) + 1)}
    return {"corruption": name} | ({} if defaults == {scale} else {"corruption_scale": scale})


def versions(config: "TrialConfig") -> Settings:
    """The versions of the simulation and of all plugins that the config names."""
    plugins = {
        "data": DATASETS.version(config.data.name),
        "partition": PARTITIONS.version(config.data.partition),
        "model": MODELS.version(config.model),
        "corruption": CORRUPTIONS.version(config.clients.corruption) if config.corrupted_clients else None,
        "shift": SHIFTS.version(config.clients.shift),
        "method": METHODS.version(config.method.name),
        **{f"method {name}": METHODS.version(name) for name in config.method.methods[1:]},
    }
    given = {kind: version for kind, version in plugins.items() if version is not None}
    return {"simulation": SIMULATION_VERSION, **given}


def digest(form: Settings) -> str:
    """The SHA-256 of a canonical form, in hexadecimal."""
    text = json.dumps(_positive_zeros(form), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _positive_zeros(value: Any) -> Any:
    """Plain data with every -0.0 replaced by 0.0, because they are equal but have different JSON."""
    if isinstance(value, dict):
        return {key: _positive_zeros(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_positive_zeros(inner) for inner in value]
    return value + 0.0 if isinstance(value, float) else value
