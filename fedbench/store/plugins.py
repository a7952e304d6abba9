"""Which code from outside the stored trials were run with, so that a change is said and not only acted upon."""

import json
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from fedbench.base.files import write_json
from fedbench.config import TrialConfig
from fedbench.config.identity import versions

FILE = "plugins.json"


def changed_plugins(out: Path, configs: Iterable[TrialConfig]) -> list[str]:
    """Store the versions of the plugins that configs use; return a line for each that differs from the stored one."""
    path, before = out / FILE, dict[str, str]()
    with suppress(OSError, ValueError):
        before = dict(json.loads(path.read_text()))
    now = {name: version for config in configs for name, version in _used(config).items()}
    if now.items() <= before.items():
        return []
    write_json(path, before | now)
    return [
        f"the code of {name} has changed since its trials were stored: they are run again"
        for name, version in now.items()
        if before.get(name, version) != version
    ]


def _used(config: TrialConfig) -> dict[str, str]:
    names = {"data": config.data.name, "partition": config.data.partition, "model": config.model}
    names |= {"corruption": config.clients.corruption, "shift": config.clients.shift, "method": config.method.name}
    inner = {f"method {name}": name for name in config.method.methods[1:]}
    names, kinds = names | inner, {"data": "data set"} | dict.fromkeys(inner, "method")
    outside = versions(config)
    return {f"{kinds.get(kind, kind)} '{names[kind]}'": outside[kind] for kind in names if kind in outside}
