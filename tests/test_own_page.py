"""docs/own.md, run as it stands: data, a rule and a study of one's own."""

import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from fedbench.config import TrialConfig
from fedbench.specs.expand import expand

PAGE = (Path(__file__).parent.parent / "docs" / "own.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The files of the page, written as a reader would."""
    data, rule = blocks("python")
    (study,) = blocks("yaml")
    (tmp_path / "make.py").write_text(data)
    (tmp_path / "my_rule.py").write_text(rule)
    (tmp_path / "mine.yaml").write_text(study)
    subprocess.run([sys.executable, "make.py"], cwd=tmp_path, check=True)
    return tmp_path


def test_the_page_counts_its_lines_right() -> None:
    (data, rule), (study,) = blocks("python"), blocks("yaml")
    (said,) = re.findall(r"The rule is (\d+) lines of Python, the study (\d+) of YAML, the data (\d+) of Python", PAGE)
    assert said == tuple(str(len(text.splitlines())) for text in (rule, study, data))


@pytest.mark.slow
def test_data_clients_and_a_rule_of_ones_own_give_a_table_with_the_worst_client(folder: Path) -> None:
    (command,) = blocks("bash")
    arguments = command.split()[1:]
    said = subprocess.run([sys.executable, *arguments, "--out", "out"], cwd=folder, capture_output=True, text=True)
    assert said.returncode == 0, said.stderr
    results = folder / "out" / "studies" / "mine" / "quick"
    text = (results / "table.csv").read_text()
    for name in ("FedAvg", "FedLAW", "my rule", "owners", "Dirichlet", "worst_client"):
        assert name in text
    clients = pd.read_csv(results / "client_accuracy.csv.gz")
    assert set(clients["basis"]) == {"measured"}
    assert clients.groupby(["method", "partition", "seed"]).size().tolist() == [10] * 12
    assert "my rule beats FedAvg for the worst client" in (results / "claims.csv").read_text()
    configs = [path.read_text() for path in (folder / "out" / "trials").glob("*/config.yaml")]
    assert len(configs) == 12 and all("norm: group" in config for config in configs)


def test_the_study_of_the_page_has_owners_as_clients(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    text = (folder / "mine.yaml").read_text().replace("import: [my_rule.py]\n", "")
    text = text.replace("    my rule: {method.name: without_farthest}\n", "    my rule: {method.name: median}\n")
    (folder / "mine.yaml").write_text(text)
    study = expand("mine.yaml", "quick", changes={}, only={}, seeds=None)
    natural: list[TrialConfig] = [c for c in study.trials.values() if c.data.partition == "natural"]
    assert len(study.trials) == 12 and len(natural) == 6
    assert all(config.dataset.owners == 10 and not config.uses_batch_norm for config in natural)
