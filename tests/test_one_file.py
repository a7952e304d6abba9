"""To add a thing, one touches one file: the examples of docs/extending.md, put where CONTRIBUTING.md says, and used."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

ROOT = Path(__file__).parent.parent
FOLDERS = {  # what an example registers -> the folder of its kind
    "@register_method": "fedbench/methods",
    "@register_model": "fedbench/models",
    "register_dataset(": "fedbench/data/sets",
    "@register_partition": "fedbench/data/partitions",
    "@register_corruption": "fedbench/corruptions",
    "@register_shift": "fedbench/shifts",
    "@register_indicator": "fedbench/indicators",
    "register_metric(": "fedbench/metrics",
    "@register_plot": "fedbench/render/plots",
    "@register_check": "fedbench/analysis/checks",
    "@register_tracker": "fedbench/trackers",
    "@register_engine": "fedbench/simulation/engines",
}
# Runs the study that uses them all, without Ray: two seeds, two rounds.
SCRIPT = """
import sys
from pathlib import Path
from fedbench.base.plugins import import_modules
import_modules(sys.argv[2:])
from fedbench.render.report import make_report
from fedbench.specs.expand import expand
from fedbench.store.execute import execute
from fedbench.store.store import Store
from fedbench.trackers import trackers_of
import fedbench
assert Path(fedbench.__file__).is_relative_to(Path.cwd()) == (len(sys.argv) == 2)
study, store = expand(sys.argv[1], "quick", changes={"rounds": 2}, only={}, seeds=[8, 9]), Store(Path("out"))
for config in study.trials.values():
    stored = execute(config, store, None, trackers_of(["my_lines"], config, store.out, print))
    assert stored.status == "done", stored.reason
report = make_report(study, store)
print(*(finding.evidence for finding in report.findings), sep="\\n")
"""


def blocks() -> list[str]:
    """Every module of the page."""
    return re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "extending.md").read_text(), re.DOTALL)


def block(mark: str) -> str:
    """The one module that says something."""
    (found,) = (text for text in blocks() if mark in text)
    return found


def examples() -> dict[str, str]:
    """The modules that the study uses, by the folder of their kind: all but three second examples and a piece."""
    others = [block(mark) for mark in ("my_images", "my_fit", "check_method(", "span.view(")]
    chosen = [text for text in blocks() if text not in others]
    found = {folder: [b for b in chosen if re.search(rf"^{re.escape(m)}", b, re.M)] for m, folder in FOLDERS.items()}
    assert all(len(texts) == 1 for texts in found.values())
    assert len(chosen) == len(FOLDERS), "an example is of no kind"
    return {folder: text for folder, (text,) in found.items()}


def study() -> str:
    (text,) = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs" / "extending.md").read_text(), re.DOTALL)
    return str(text)


def files(folder: Path) -> dict[str, bytes]:
    names = ("fedbench", "studies", "search_spaces")
    paths = [path for name in names for path in (folder / name).rglob("*") if path.is_file()]
    return {str(p.relative_to(folder)): p.read_bytes() for p in paths if "__pycache__" not in p.parts}


def run(folder: Path, *arguments: str) -> None:
    """Run the study, then look at what each of the new things left behind."""
    script = [sys.executable, "-c", SCRIPT, *arguments]
    result = subprocess.run(script, cwd=folder, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert "less 0.5 times the other's" in result.stdout
    (report,) = (folder / "out" / "studies").glob("*/quick/rounds=2+seeds=8,9")
    assert "my_worst_class" in (report / "table.csv").read_text()
    assert (report / "classes.png").stat().st_size > 5000
    assert (report / "drift.png").stat().st_size > 5000
    (trial, *_) = (folder / "out" / "trials").iterdir()
    assert "lambda_corrupted" in (trial / "indicators.csv").read_text()
    assert (trial / "my_drift.csv").read_text().startswith("round,client,distance\n")
    assert len(list((folder / "out" / "my_lines").iterdir())) == 8


def test_each_thing_is_one_new_file_and_no_other_is_touched(tmp_path: Path) -> None:
    for name in ("fedbench", "studies", "search_spaces"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    before = files(tmp_path)
    for folder, module in examples().items():
        (tmp_path / folder / "my_own.py").write_text(module)
    (tmp_path / "studies" / "my_study.yaml").write_text(study())
    run(tmp_path, "my_study")
    after = files(tmp_path)
    assert {name: after[name] for name in before} == before
    assert len(after.keys() - before.keys()) == len(FOLDERS) + 1


def test_the_same_modules_work_from_outside_the_package(tmp_path: Path) -> None:
    modules = []
    for number, module in enumerate(examples().values()):
        modules.append(f"my_module_{number}")
        (tmp_path / f"my_module_{number}.py").write_text(module)
    (tmp_path / "mine.yaml").write_text(study())
    run(tmp_path, "mine.yaml", *modules)


IMAGES = """
from fedbench.cli.main import run_command
from fedbench.testing import check_dataset
if run_command("data", ["check", "my_images", "--import", "my_images"]) == 0:
    check_dataset("my_images")
"""


def test_images_in_a_folder_are_read_as_the_page_says(tmp_path: Path) -> None:
    (tmp_path / "my_images.py").write_text(block("my_images"))
    empty = subprocess.run([sys.executable, "-c", IMAGES], cwd=tmp_path, capture_output=True, text=True)
    assert "there are no images in train/CLASS/*.png" in empty.stderr.splitlines()[-1]
    rng = np.random.default_rng(0)
    for part, count in (("train", 6), ("test", 4)):
        for name in ("cat", "dog"):
            folder = tmp_path / "images" / part / name
            folder.mkdir(parents=True)
            for number in range(count):  # of any size, in colours or not
                pixels = rng.integers(0, 255, (30 + number, 40) if number % 2 else (50, 40, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(folder / f"{number}.png")
    read = subprocess.run([sys.executable, "-c", IMAGES], cwd=tmp_path, capture_output=True, text=True)
    assert (read.returncode, read.stderr) == (0, "")
    assert "my_images: 12 train and 8 test images of 3x32x32, 2 classes, as they should be" in read.stdout


def test_the_test_on_the_page_passes(forgotten: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "fedbench" / "templates"))
    names: dict[str, Any] = {}
    exec(block("check_method("), names)
    monkeypatch.delitem(sys.modules, "my_median")
    names["test_my_median_keeps_its_promises"]()


@pytest.mark.parametrize("folder", FOLDERS.values())
def test_contributing_names_the_one_file(folder: str) -> None:
    assert f"`{folder}/NAME.py`" in (ROOT / "CONTRIBUTING.md").read_text()
