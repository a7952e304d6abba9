"""Whole, working examples of what one can add: what `fedbench new` writes, and what the docs show.

Each is a module (or a study file) named like the thing that it registers; a new one is the same text with another name.
"""

import ast
import builtins
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from keyword import iskeyword
from pathlib import Path
from string import Template

from fedbench.base.errors import UserError

LONGEST = 255  # letters in a file's name

CONFORMANCE = '''"""Whether $name keeps its promises."""

import $name  # noqa: F401  (it registers itself)
from fedbench.testing import check_$kind


def test_it_keeps_its_promises() -> None:
    check_$kind("$name"$settings)
'''

STUDY = '''"""$name.yaml is a study, and its trials run."""

from pathlib import Path

from fedbench import TrialConfig, simulate
from fedbench.specs.expand import expand

STUDY = Path(__file__).with_name("$name.yaml")


def test_its_first_trial_runs() -> None:
    study = expand(str(STUDY), "quick", changes={"rounds": 1}, only={}, seeds=None)
    first: TrialConfig = next(iter(study.trials.values()))
    assert [record.diverged for record in simulate(first)] == [None]
'''


@dataclass(frozen=True)
class Example:
    """A kind of thing: the example's file, how a new one is tried, and the text of its test.

    `home` is where its registry is, for modules; `settings` are for the check in the test. $name stands for the name.
    """

    file: str
    usage: str
    home: str = ""
    test: str = CONFORMANCE
    settings: str = ""

    @property
    def name(self) -> str:
        """Return the name of the example."""
        return Path(self.file).stem

    @property
    def text(self) -> str:
        """The example as it stands."""
        return (Path(__file__).parent / self.file).read_text(encoding="utf-8")


EXAMPLES: Mapping[str, Example] = {
    "method": Example("my_median.py", "trial --import $name --set method.name=$name", "fedbench.methods"),
    "model": Example("my_net.py", "trial --import $name --set model=$name --set rounds=3", "fedbench.models"),
    "dataset": Example("my_squares.py", "trial --import $name --set data.name=$name", "fedbench.data.base"),
    "partition": Example("my_pieces.py", "trial --import $name --set data.partition=$name", "fedbench.data.partitions"),
    "indicator": Example(
        "my_drift.py",
        "trial --import $name --set indicators.$name=true --out runs/$name",
        "fedbench.indicators",
        settings=', {"indicators.$name": True}',
    ),
    "study": Example("my_study.yaml", "study $name.yaml", test=STUDY),
}


def write(kind: str, name: str, folder: Path) -> list[Path]:
    """Write a new thing and its test into a folder; returns both files. What is there already is never touched."""
    check_plain(kind, name)
    example = EXAMPLES[kind]
    file, test = folder / f"{name}{Path(example.file).suffix}", folder / f"test_{name}.py"
    if len(test.name) > LONGEST:
        raise UserError(
            f"name '{name[:20]}...': too long for a file; must have at most {LONGEST - len('test_.py')} letters"
        )
    for path in (file, test):
        if path.exists():
            raise UserError(f"{path}: is there already; choose another name, or another folder with --to")
    check_free(kind, name)
    settings = filled(example.settings, kind, name)
    texts = {file: renamed(example.text, example.name, name), test: filled(example.test, kind, name, settings)}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in texts.items():
            with path.open("x", encoding="utf-8") as stream:
                stream.write(text)
    except OSError as error:
        raise UserError(f"{folder}: cannot be written to ({error.strerror})") from error
    return list(texts)


def check_plain(kind: str, name: str) -> None:
    """A name must do as that of a module and, in capitals, of a class."""
    plain = name.isascii() and name.isidentifier() and name == name.lower() and name[0].isalpha()
    if not plain or iskeyword(name) or name.startswith("test_"):
        raise UserError(f"name '{name}': must be a Python name in small letters, such as {EXAMPLES[kind].name}")


def check_free(kind: str, name: str) -> None:
    """Refuse a name that another thing of the kind has, or that would hide a module which the new one imports."""
    example = EXAMPLES[kind]
    if not example.home:  # a study is no module
        return
    taken = hasattr(builtins, name) or iskeyword(camel(name)) or find_spec(name)
    if taken or {name, camel(name), f"{camel(name)}Settings"} & used(example):
        raise UserError(f"name '{name}': means something else in Python already; choose one such as my_{name}")
    if name in getattr(import_module(example.home), f"{kind.upper()}S"):
        raise UserError(f"name '{name}': another {kind} is called so already; choose one such as my_{name}")


def used(example: Example) -> set[str]:
    """The names of others that an example uses."""
    tree = list(ast.walk(ast.parse(example.text)))
    imported = {alias.name for node in tree if isinstance(node, ast.ImportFrom | ast.Import) for alias in node.names}
    return imported | {node.id for node in tree if isinstance(node, ast.Name)} - {example.name, camel(example.name)}


def usage(kind: str, name: str) -> str:
    """Return the command that tries a new thing, without `python -m fedbench.`."""
    return filled(EXAMPLES[kind].usage, kind, name)


def renamed(text: str, old: str, new: str) -> str:
    """An example's text under another name; classes are called like it, in capitals."""
    return text.replace(old, new).replace(camel(old), camel(new))


def camel(name: str) -> str:
    """my_median as the name of a class: MyMedian."""
    return "".join(part.capitalize() for part in name.split("_"))


def filled(text: str, kind: str, name: str, settings: str = "") -> str:
    """A text with the name and kind put in."""
    return Template(text).substitute(name=name, kind=kind, settings=settings)
