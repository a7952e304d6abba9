"""What is recorded of the machine that a run has been on."""

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from fedbench import Simulation, TrialConfig
from fedbench.simulation import environment as module
from fedbench.simulation.environment import driver_version, environment
from fedbench.store.mark import Environment

Make = Callable[..., TrialConfig]
HERE: dict[str, Any] = {"device_name": "x", "threads": 1, "torch": "2.13.0", "fedbench": "0.1.0"}


@pytest.fixture
def driver_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file in which Linux tells the version of NVIDIA's driver."""
    file = tmp_path / "version"
    monkeypatch.setattr(module, "DRIVER_FILE", file)
    monkeypatch.setenv("PATH", str(tmp_path))
    driver_version.cache_clear()
    yield file
    driver_version.cache_clear()


@pytest.mark.parametrize(
    "text",
    [
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 2024\nGCC version: 12.2.0\n",
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15  Release Build  (x@y)\n",
    ],
)
def test_the_driver_is_read_from_the_system(driver_file: Path, text: str) -> None:
    driver_file.write_text(text)
    assert driver_version() == "550.54.15"


def test_the_driver_is_asked_from_its_own_tool_where_there_is_no_file(driver_file: Path) -> None:
    tool = driver_file.with_name("nvidia-smi")
    tool.write_text("#!/bin/sh\necho 560.35.03\necho 560.35.03\n")
    tool.chmod(0o755)
    assert driver_version() == "560.35.03"


def test_without_a_driver_there_is_no_version(driver_file: Path) -> None:
    assert driver_version() is None


def test_a_run_on_a_gpu_records_the_versions_of_its_libraries(
    tiny: Make, driver_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver_file.write_text("NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue\n")
    monkeypatch.setattr(torch.version, "cuda", "12.8")
    monkeypatch.setattr(torch.backends.cudnn, "version", lambda: 91002)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "A100")
    engine: Any = SimpleNamespace(name="graphed")
    run: Any = SimpleNamespace(device=torch.device("cuda"), config=tiny(), engine=engine)
    found = environment(run)
    assert {name: found[name] for name in ("cuda", "cudnn", "driver")} == {
        "cuda": "12.8",
        "cudnn": "91002",
        "driver": "550.54.15",
    }
    assert str(Environment(**found)).endswith(", CUDA 12.8, cuDNN 91002, driver 550.54.15")


def test_a_run_on_a_cpu_has_none_of_them(tiny: Make) -> None:
    assert not {"cuda", "cudnn", "driver"} & environment(Simulation(tiny())).keys()


def test_tables_tell_environments_apart_by_them_and_read_those_of_before() -> None:
    old = Environment(**HERE)
    assert str(old) == "x, 1 thread, torch 2.13.0, fedbench 0.1.0"
    assert len({str(old), *(str(Environment(**HERE, driver=version)) for version in ("550.54.15", "560.35.03"))}) == 3
