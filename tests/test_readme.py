"""What the README says is tried."""

from pathlib import Path

from fedbench.specs.expand import expand, study_files
from fedbench.specs.parts import CHECKS, PLOTS
from fedbench.specs.space import space_files
from fedbench.store.metrics import METRICS

README = (Path(__file__).parent.parent / "README.md").read_text()


def test_the_readmes_study_is_a_study(tmp_path: Path) -> None:
    (block,) = (part.split("```")[0] for part in README.split("```yaml\n")[1:])
    path = tmp_path / "mine.yaml"
    path.write_text(block)
    assert len(expand(str(path), "quick", changes={}, only={}, seeds=None).trials) == 12


def test_the_readme_lists_every_study() -> None:
    assert all(f"| `{name}` |" in README for name in study_files())


def test_the_readme_lists_every_search_space() -> None:
    spaces = README.split("| space | tunes |")[1].split("\n\n")[0]
    assert all(f"`{name}`" in spaces for name in space_files())


def test_the_readme_names_every_metric_kind_of_plot_and_check() -> None:
    assert all(f"`{name}`" in README for name in (*METRICS, *PLOTS, *CHECKS))
