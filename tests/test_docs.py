"""What README and docs say is tried."""

import re
import subprocess
import sys
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
import torch

from fedbench.methods import Cohort
from fedbench.simulation import Simulation
from fedbench.specs.expand import expand
from fedbench.specs.space import expand_space
from fedbench.testing import check_indicator, tiny
from tests.methods.helpers import tiny_cohort, tiny_server

ROOT = Path(__file__).parent.parent
EXTENDING = ROOT / "docs" / "extending.md"
PAGES = sorted((ROOT / "docs").glob("*.md"))


def block(page: str, language: str) -> str:
    """The one block of a language on a page."""
    (text,) = re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    return str(text)


def test_lists_in_the_docs_are_those_of_the_code() -> None:
    result = subprocess.run([sys.executable, "docs/generate.py", "--check"], cwd=ROOT, capture_output=True, text=True)
    assert result.stdout == "", "renew them: python docs/generate.py"
    assert result.returncode == 0, result.stderr


def test_every_list_that_there_is_stands_in_the_docs() -> None:
    pages = [ROOT / "README.md", *PAGES]
    names = {name for page in pages for name in re.findall(r"^<!-- generated: ([\w-]+) -->", page.read_text(), re.M)}
    wanted = subprocess.run(
        [sys.executable, "-c", "import sys; sys.path.insert(0, 'docs'); import generate; print(*generate.LISTS)"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert names == set(wanted.stdout.split())


def test_the_study_in_the_docs_is_a_study(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(block("docs/studies.md", "yaml"))
    assert len(expand(str(path), "quick", changes={}, only={}, seeds=None).trials) == 12


def test_the_space_in_the_docs_is_a_space(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(block("docs/search.md", "yaml"))
    scaled = expand_space(str(path), "quick", changes={})
    assert [len(arm.parameters) for arm in scaled.arms] == [4, 5, 0]
    assert scaled.length(scaled.arms[0]) == 10


def test_the_views_of_layers_in_the_docs_are_what_they_say() -> None:
    (text,) = re.findall(r"```python\n(for span in cohort.*?)```", EXTENDING.read_text(), re.DOTALL)
    server = tiny_server()
    cohort, w = tiny_cohort(server, m=4), torch.zeros_like(server.model.w)
    names: dict[str, Any] = {"cohort": cohort, "w": w}
    exec(text, names)
    span = cohort.layers.tensors[-1]
    assert names["before"].shape == span.shape
    assert names["after"].shape == (4, *span.shape)
    state = server.model.to_state_dict(w, server.model.buffers)
    assert all(
        torch.equal(tensor[0], span.view(cohort.w)[0])
        for span, tensor in zip(cohort.layers.tensors, state.values(), strict=True)
    )
    assert not state["0.weight"][1:].any()


@pytest.mark.usefixtures("forgotten")
def test_the_example_of_conclude_in_the_docs_keeps_its_promises() -> None:
    (text,) = re.findall(r"```python\n(\"\"\"How well the final model fits.*?)```", EXTENDING.read_text(), re.DOTALL)
    exec(text, {"__name__": "my_fit"})
    check_indicator("my_fit", {"indicators.my_fit": True})


def test_what_the_docs_say_of_a_federation_and_of_samples_is_there() -> None:
    federation = Simulation(tiny()).federation
    for owner, heading in ((federation, "of the federation"), (federation.train, "of samples")):
        (rows,) = re.findall(
            rf"\| {heading} \| what it is \|\n\|---\|---\|\n(.*?)\n\n", EXTENDING.read_text(), re.DOTALL
        )
        names = [name for row in rows.splitlines() for name in re.findall(r"`([\w.]+)", row.split("|")[1])]
        assert len(names) > 4
        for name in names:
            assert attrgetter(name)(owner) is not Ellipsis
    own = federation.train.subset(federation.split.shards[0])
    inputs, labels = own.batch(torch.arange(2))
    assert (inputs.dtype, labels.dtype, own.images.dtype) == (torch.float32, torch.int64, torch.uint8)


def test_dtypes_of_a_cohort_are_those_in_the_docs() -> None:
    seen: list[Cohort] = []
    simulation = Simulation(tiny({"method.name": "qfedavg"}))
    make = simulation.cohort

    def look(*given: Any) -> Cohort:
        seen.append(make(*given))
        return seen[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(simulation, "cohort", look)
        simulation.step()
    (cohort,) = seen
    own = (cohort.W, cohort.B, cohort.w, cohort.p, cohort.uniform, cohort.buffers)
    assert {tensor.dtype for tensor in own} == {torch.float32}
    assert {cohort.losses.dtype, cohort.work.steps.dtype} == {torch.float64}
    assert {cohort.sizes.dtype, cohort.rows().dtype} == {torch.int64}
    weights = torch.softmax(-cohort.losses, 0)  # as a rule may write it
    assert torch.equal(cohort.combine(weights), weights.float() @ cohort.W)


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *PAGES], ids=lambda page: page.name)
def test_links_within_the_project_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[\w-]+)?\)", text):
        if not target.startswith(("http:", "https:")):
            assert (page.parent / target).exists(), target
