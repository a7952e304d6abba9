"""Checks of settings that depend on one another."""

from typing import TYPE_CHECKING, get_args

from fedbench.base.errors import ConfigError
from fedbench.config.engines import AUTO, ENGINES
from fedbench.config.resolve import named
from fedbench.corruptions import CORRUPTIONS
from fedbench.data.own import FILE
from fedbench.data.partitions import PARTITIONS
from fedbench.indicators import INDICATORS
from fedbench.methods.base import MethodSettings, ProxyUse, Report
from fedbench.models import MODELS
from fedbench.models.base import wrong_output
from fedbench.shifts import NO_SHIFT, SHIFTS

if TYPE_CHECKING:
    from fedbench.config.schema import TrialConfig


def check(config: "TrialConfig") -> None:
    """Raise ConfigError for the first conflict between settings."""
    data, dataset, n = config.data, config.dataset, config.clients.count
    if data.name != FILE and (data.path is not None or data.content is not None):
        raise ConfigError(f"data.path = {data.path}: only data.name={FILE} reads a file; must be null")
    named("model", config.model, MODELS.get)
    if MODELS.version(config.model) is not None and (problem := wrong_output(*config.network)):
        raise ConfigError(f"model '{config.model}': {problem}")
    _ = config.uses_batch_norm  # builds the model without memory; raises an error if it does not fit the images
    if config.init.content is not None and config.init.draw:
        raise ConfigError(f"init.draw = {config.init.draw}: init.path gives the initial weights; must be 0")
    if problem := PARTITIONS.get(data.partition).check(n):
        raise ConfigError(f"clients.count = {n}: {problem} with data.partition={data.partition}")
    if PARTITIONS.get(data.partition).by_owner:
        if not dataset.owners:
            raise ConfigError(f"data.partition = {data.partition}: the samples of {dataset.name} have no owners")
        if n > dataset.owners:
            raise ConfigError(f"clients.count = {n}: {dataset.name} has {dataset.owners} owners; must be at most that")
    for key, given, total in (
        ("train_size", data.train_size, dataset.train_size),
        ("test_size", data.test_size, dataset.test_size),
    ):
        if given is not None and given > total:
            raise ConfigError(
                f"data.{key} = {given}: {dataset.name} has {total} of these images; must be at most {total}"
            )
    if n > (left := config.train_samples - config.validation_samples):
        raise ConfigError(f"clients.count = {n}: more clients than training samples; must be at most {left}")
    for _, indicator in INDICATORS.items():
        if problem := indicator.check(config.indicators, n, config.participants):
            raise ConfigError(problem)
    check_work(config)
    check_client_validation(config)
    check_requirements(config.method)
    if config.method.training == "local" and config.uses_batch_norm and config.bn != "local":
        raise ConfigError(f"bn = {config.bn}: nothing is sent with method.name={config.method.name}; must be local")
    if problem := config.method.check(config.participants):
        raise ConfigError(problem)
    check_corruption(config)
    check_shift(config)
    check_proxy(config)
    if config.run.engine != AUTO:
        named("run.engine", config.run.engine, ENGINES.get)


def check_work(config: "TrialConfig") -> None:
    """Stragglers must be able to do less than all epochs, and no indicator may need all clients in every round."""
    clients = config.clients
    if clients.straggler and clients.min_epochs >= clients.epochs:
        raise ConfigError(
            f"clients.straggler = {clients.straggler}: stragglers do from clients.min_epochs={clients.min_epochs} to "
            f"clients.epochs={clients.epochs} epochs; clients.epochs must be above clients.min_epochs"
        )
    if not clients.dropout:
        return
    for _, indicator in INDICATORS.items():
        for answered in range(1, config.participants):
            if problem := indicator.check(config.indicators, clients.count, answered):
                raise ConfigError(f"clients.dropout = {clients.dropout}: {problem}")


def check_client_validation(config: "TrialConfig") -> None:
    """The accuracy that is expected of clients needs a validation set, and classes that look alike at all clients."""
    if not config.indicators.client_validation:
        return
    if not config.validation_samples:
        raise ConfigError("indicators.client_validation = true: needs a validation set; set data.validation above 0")
    if not config.only_labels_differ:
        raise ConfigError(
            "indicators.client_validation = true: expects clients to differ in their labels alone, which they do not "
            f"with data.partition={config.data.partition}; must be false"
        )


def check_requirements(method: MethodSettings) -> None:
    """Check that a method's `proxy_use` and `reports` have known values."""
    for key, given, known in (
        ("proxy_use", (method.proxy_use,), get_args(ProxyUse)),
        ("reports", method.reports, get_args(Report)),
    ):
        if wrong := [value for value in given if value not in known]:
            raise ConfigError(f"method '{method.name}': {key} = {wrong[0]!r}: must be one of {', '.join(known)}")


def check_corruption(config: "TrialConfig") -> None:
    """Check that the corruption is known, and that it has a scale if `clients.corruption_scale` is set."""
    clients = config.clients
    corruption = named("clients.corruption", clients.corruption, CORRUPTIONS.get)
    if clients.corruption_scale is not None and corruption.default_scale(config.participants, 1) is None:
        wrong = f"clients.corruption={corruption.name} has no scale; must be null"
        raise ConfigError(f"clients.corruption_scale = {clients.corruption_scale}: {wrong}")


def check_shift(config: "TrialConfig") -> None:
    """The shift must exist and fit the images; its groups and its scale need a shift, and a shift that has a scale."""
    clients, dataset = config.clients, config.dataset
    if clients.shift == NO_SHIFT:
        for key, given in (("shift_groups", clients.shift_groups), ("shift_scale", clients.shift_scale)):
            if given is not None:
                raise ConfigError(f"clients.{key} = {given}: clients.shift is {NO_SHIFT}; must be null")
        return
    shift = named("clients.shift", clients.shift, SHIFTS.get)
    if dataset.kind != "uint8":
        raise ConfigError(f"clients.shift = {shift.name}: changes pixels, and {dataset.name} has {dataset.kind} inputs")
    if problem := shift.check(dataset.shape):
        raise ConfigError(f"clients.shift = {shift.name}: {problem}")
    if clients.shift_scale is not None and shift.default_scale is None:
        raise ConfigError(f"clients.shift_scale = {clients.shift_scale}: {shift.name} has no scale; must be null")
    groups = clients.count if clients.shift_groups is None else clients.shift_groups
    if not 2 <= groups <= clients.count:
        key = "count" if clients.shift_groups is None else "shift_groups"
        most = "" if clients.shift_groups is None else f" and at most clients.count, {clients.count}"
        raise ConfigError(f"clients.{key} = {groups}: a shift is between groups; must be at least 2{most}")


def check_authors_rule(config: "TrialConfig") -> None:
    """Check the proxy set's settings for `proxy.rule=authors`.

    The paper's code draws the same number of images of every class from the whole test set. It has no long tail, no
    separate pool and no other draws, so these settings must have the values that mean "none".
    """
    proxy, classes = config.proxy, config.dataset.num_classes
    for key, given, right in (
        ("proxy.pool", config.proxy_pool, proxy.size),
        ("proxy.draw", proxy.draw, 0),
        ("proxy.longtail", proxy.longtail, 1),
        ("proxy.source", proxy.source, "test"),
    ):
        if given != right:
            raise ConfigError(f"{key} = {given}: proxy.rule=authors does not support it; must be {right}")
    if proxy.size % classes:
        raise ConfigError(
            f"proxy.size = {proxy.size}: proxy.rule=authors takes the same number of images of every class; "
            f"must be a multiple of {classes}"
        )


def check_proxy(config: "TrialConfig") -> None:
    """Check that the proxy set exists if it is used, fits into its pool, and leaves test images for evaluation."""
    test, proxy, pool = config.test_samples, config.proxy, config.proxy_pool
    if config.uses_proxy and proxy.size == 0:
        user = f"method.name={config.method.name}" if config.method.proxy_use != "none" else "bn=proxy"
        raise ConfigError(f"proxy.size = 0: {user} needs a proxy set; must be a whole number at least 1")
    if proxy.size >= test:
        raise ConfigError(
            f"proxy.size = {proxy.size}: leaves none of {test} test images for evaluation; must be below {test}"
        )
    if pool >= test:
        raise ConfigError(
            f"proxy.pool = {pool}: leaves none of {test} test images for evaluation; must be below {test}"
        )
    if proxy.rule == "authors":
        check_authors_rule(config)
    if not config.uses_proxy:
        return
    if proxy.source == "train" and pool > (most := config.train_samples - config.validation_samples):
        raise ConfigError(
            f"proxy.source = train: clients have {most} images; proxy.size and proxy.pool must be at most {most}"
        )
    if proxy.draw and proxy.longtail == 1 and pool == proxy.size:
        raise ConfigError(
            f"proxy.draw = {proxy.draw}: all {pool} images of the pool are drawn; must be 0, or proxy.pool above {pool}"
        )
    if proxy.longtail == 1 and pool < proxy.size:
        raise ConfigError(f"proxy.pool = {pool}: smaller than the proxy set; must be at least {proxy.size}")
    if proxy.longtail > 1 and not any(config.proxy_counts):
        raise ConfigError(
            f"proxy.size = {proxy.size}: too small to have an image of any class with proxy.longtail={proxy.longtail}"
        )
    if proxy.longtail > 1 and pool < (need := max(config.proxy_counts) * config.dataset.num_classes):
        raise ConfigError(f"proxy.pool = {pool}: too small for the long tail's largest class; must be at least {need}")
