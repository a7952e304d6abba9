"""The identity of every built-in experiment: a trial's hash changes only when its meaning does, and on purpose.

After such a change, and a note of it in CHANGELOG.md: python -m tests.test_hashes
"""

import json
from pathlib import Path
from typing import Any

import pytest

from fedbench.base.errors import UserError
from fedbench.specs.expand import expand, study_files
from fedbench.specs.names import SCALES, text_label
from fedbench.specs.space import expand_space, space_files

FILE = Path(__file__).parent / "golden" / "hashes.json"
LENGTH = 12  # hex digits: enough to tell a few thousand trials apart

Hashes = dict[str, str]  # what a trial is, in words -> the first digits of its hash


def study_hashes(name: str, scale: str) -> Hashes:
    """Every trial of a study."""
    study = expand(name, scale, changes={}, only={}, seeds=None)
    return {
        f"{', '.join(map(text_label, cell.labels.values()))}, seed {seed}": config.hash[:LENGTH]
        for cell in study.cells
        for seed, config in cell.trials.items()
    }


def space_hashes(name: str, scale: str) -> Hashes:
    """Of every method of a space: its default settings, as suggested and as tabled, and its fingerprint."""
    space = expand_space(name, scale, changes={})
    hashes: Hashes = {}
    for arm in space.arms:
        for config in space.suggestion(arm.fixed):
            hashes[f"{arm.label}, suggestion seed {config.seed}"] = config.hash[:LENGTH]
        for seed, config in space.final(arm.fixed).items():
            hashes[f"{arm.label}, seed {seed}"] = config.hash[:LENGTH]
        hashes[f"{arm.label}, all ends of all ranges"] = space.fingerprint(arm)["settings"][:LENGTH]
    return hashes


CASES = [("studies", name) for name in study_files()] + [("search_spaces", name) for name in space_files()]
READ = {"studies": study_hashes, "search_spaces": space_hashes}


@pytest.fixture(scope="module")
def golden() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(FILE.read_text())
    return content


def read(folder: str, name: str, scale: str) -> Hashes | None:
    """The hashes at a scale, None where it has none of that name."""
    try:
        return READ[folder](name, scale)
    except UserError as error:
        assert f"has no scale '{scale}'" in str(error)
        return None


def test_nothing_built_in_is_without_golden_hashes_or_the_other_way_round(golden: dict[str, Any]) -> None:
    assert {(folder, name) for folder, names in golden.items() for name in names} == set(CASES)


@pytest.mark.parametrize(("folder", "name"), CASES)
@pytest.mark.parametrize("scale", SCALES)
def test_the_hashes_are_those_of_before(golden: dict[str, Any], folder: str, name: str, scale: str) -> None:
    assert read(folder, name, scale) == golden[folder][name].get(scale)


if __name__ == "__main__":
    found: dict[str, Any] = {"studies": {}, "search_spaces": {}}
    for folder, name in CASES:
        every = {scale: read(folder, name, scale) for scale in SCALES}
        found[folder][name] = {scale: hashes for scale, hashes in every.items() if hashes is not None}
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(json.dumps(found, indent=0) + "\n")
    print(FILE)
