"""What the README says is tried."""

from pathlib import Path

from fedbench.studyfile import built_in, expand

README = (Path(__file__).parent.parent / "README.md").read_text()


def test_the_readmes_study_is_a_study(tmp_path: Path) -> None:
    (block,) = (part.split("```")[0] for part in README.split("```yaml\n")[1:])
    path = tmp_path / "mine.yaml"
    path.write_text(block)
    assert len(expand(str(path), "quick", changes={}, only={}, seeds=None).trials) == 12


def test_the_readme_lists_every_study() -> None:
    assert all(f"| `{name}` |" in README for name in built_in())
