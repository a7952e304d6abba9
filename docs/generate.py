"""Fill in the lists of the docs from the code: python docs/generate.py (with --check it only says which are stale).

A page, or the README, has the list NAME between the lines `<!-- generated: NAME -->` and
`<!-- end of generated: NAME -->`. Results come from `published/`; their plots are drawn anew where their page is stale.
"""

import ast
import contextlib
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, get_origin

import conclusion
import results_page
import statistics_page
import torch
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from fedbench.base.errors import ConfigError
from fedbench.base.explain import describe, fields
from fedbench.base.settings import load_raw_yaml
from fedbench.cli.main import COMMANDS, parser_of
from fedbench.config import TrialConfig
from fedbench.config.engines import AUTO, ENGINES
from fedbench.config.resolve import resolve
from fedbench.corruptions import CORRUPTIONS
from fedbench.data.base import DATASETS, PAPER_DEFAULTS
from fedbench.data.partitions import PARTITIONS, DataSettings
from fedbench.indicators import INDICATORS
from fedbench.methods import METHODS, MethodSettings
from fedbench.metrics import METRICS
from fedbench.models import MODELS, build
from fedbench.shifts import NO_SHIFT, SHIFTS
from fedbench.simulation.record import columns
from fedbench.specs.library import built_in
from fedbench.specs.parts import CHECKS, PLOTS, ClaimSpec, PlotSpec
from fedbench.specs.space import Space
from fedbench.specs.study import Study
from fedbench.templates import EXAMPLES
from fedbench.trackers import TRACKERS

DOCS = Path(__file__).parent
BLOCK = re.compile(r"^(<!-- generated: ([\w-]+) -->\n).*?^(<!-- end of generated: \2 -->)", re.DOTALL | re.MULTILINE)
PROXY = {"none": "", "unlabelled": "proxy images", "labelled": "proxy images and labels"}
REPORTS = {"loss": "training losses", "class_counts": "class counts", "gradient": "mean gradients"}
FROM = "by data set"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    texts = ([" ".join(cell.replace("|", "\\|").split()) for cell in line] for line in lines)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in texts)


def code(names: Iterable[object]) -> str:
    """Names as code, with commas."""
    return ", ".join(f"`{name}`" for name in names) or "-"


def says(thing: Any) -> str:
    """The first paragraph of a docstring."""
    return " ".join((inspect.getdoc(thing) or "").split("\n\n")[0].split())


@cache
def meanings(model: type[BaseModel]) -> Mapping[str, str]:
    """What the docstrings below the fields of a class, and of its bases, say."""
    texts: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if (
            not base.__module__.startswith("fedbench") or base.__name__ == "IndicatorSettings"
        ):  # put together from others
            continue
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        body = tree.body if isinstance(tree, ast.ClassDef) else []
        for line, below in pairwise(body):
            if (
                isinstance(line, ast.AnnAssign)
                and isinstance(below, ast.Expr)
                and isinstance(below.value, ast.Constant)
            ):
                texts[ast.unparse(line.target)] = str(below.value.value)
    return texts


def written(value: Any) -> str:
    """A value as YAML has it."""
    words = {"None": "null", "True": "true", "False": "false"}
    return f"`{words.get(str(value), value)}`"


def default(field: FieldInfo, missing: str = "") -> str:
    """A field's default, as users write it."""
    value = field.get_default(call_default_factory=True)
    value = value.name if isinstance(value, MethodSettings) else value
    return missing if value is PydanticUndefined else written(value)


def choices(field: FieldInfo) -> str:
    """The names that a field takes, if it takes names."""
    text = describe(field.annotation)
    return text.removeprefix("one of ") if get_origin(field.annotation) is Literal and "," in text else ""


def listed_fields(model: type[BaseModel], base: type[BaseModel], prefix: str = "", missing: str = "") -> str:
    """The fields that a class adds to its base's, with defaults and meanings, in one cell."""
    parts = []
    for name, field in model.model_fields.items():
        if name in base.model_fields:
            continue
        value = " ".join(filter(None, (default(field, missing), choices(field) and f"of {choices(field)}")))
        meaning = meanings(model).get(name, "")
        parts.append(f"`{prefix}{name}`" + (f" ({value})" if value else "") + (f": {meaning}" if meaning else ""))
    return "; ".join(parts) or "-"


def file_keys(model: type[BaseModel]) -> str:
    """The keys of a file, with their meanings."""
    rows = ((f"`{field.alias or name}`", meanings(model).get(name, "")) for name, field in model.model_fields.items())
    return table(("key", "content"), rows)


def settings() -> str:
    """Every key of a config, but the methods' own."""
    by_data = {key for _, dataset in DATASETS.items() for key in dataset.defaults} | set(PAPER_DEFAULTS)
    names: dict[str, Iterable[str]] = {"data.name": DATASETS, "data.partition": PARTITIONS, "model": MODELS}
    names |= {"clients.corruption": CORRUPTIONS, "clients.shift": [NO_SHIFT, *SHIFTS], "run.engine": [AUTO, *ENGINES]}
    fixed = {"data.partition": "`dirichlet`", "bn": "by method", "proxy.size": "10 a class"}
    rows: dict[str, list[str]] = {}
    for key, field, owner in fields(TrialConfig):
        if key.startswith("method."):
            continue
        value = fixed.get(key) or default(field, FROM if key in by_data else "")
        options = code(names[key]) if key in names else choices(field)
        meaning = meanings(owner).get(key.rpartition(".")[2], "") + (f": {options}" if options else "")
        if issubclass(owner, DataSettings) and key.removeprefix("data.") not in DataSettings.model_fields:
            meaning = "of the [partition](data.md#partitions)"
        row = rows.setdefault(key, [f"`{key}`", value, meaning])
        if value not in row[1]:  # another partition has another default, and another meaning
            row[1] += f", {owner.model_fields['partition'].default} {value}"
    rows["method.name"] = ["`method.name`", "`fedavg`", "the method; its own settings are `method.KEY`"]
    return table(("key", "default", "meaning"), rows.values())


def methods() -> str:
    """Every method with its settings."""
    rows = []
    for name, method in METHODS.items():
        what = says(sys.modules[method.__module__]).rstrip(".")
        settings = method.Settings(**resolve({"method": {"name": name}})["method"])
        told = [f"clients' {REPORTS[report]}" for report in settings.reports]
        seen = ", ".join(filter(None, (PROXY[settings.proxy_use], *told))) or "-"
        rows.append((f"`{name}`", what, seen, listed_fields(method.Settings, MethodSettings, missing=FROM)))
    return table(
        ("method", "what it does", "what it sees beside models and data sizes", "settings (`method.KEY`)"), rows
    )


def built(name: str) -> tuple[torch.nn.Module, tuple[int, int, int]]:
    """A model without memory, for the images of the first data set that prefers it, or that it can take."""
    sets = sorted((dataset for _, dataset in DATASETS.items()), key=lambda dataset: dataset.defaults["model"] != name)
    for dataset in sets:
        with contextlib.suppress(ConfigError), torch.device("meta"):
            return build(name, dataset.shape, 10), dataset.shape
    raise LookupError(f"{name}: takes the images of no data set")


def models() -> str:
    """Every model with its size for the images that it is mostly used on."""
    rows = []
    for name, builder in MODELS.items():
        module, shape = built(name)
        size = sum(parameter.numel() for parameter in module.parameters())
        batch_norm = "yes" if any(buffer.is_floating_point() for buffer in module.buffers()) else "no"
        images = "x".join(map(str, shape))
        what = says(builder)
        if isinstance(builder, partial):
            depth, widen = builder.args
            what = f"depth {depth}, widen {widen}: {says(type(module))}"
        rows.append((f"`{name}`", what, f"{size:,} ({images}, 10 classes)", batch_norm))
    return table(("model", "what it is", "parameters", "batch norm"), rows)


def datasets() -> str:
    """Every data set with the settings that it brings."""
    rows = []
    for name, dataset in DATASETS.items():
        images = f"{dataset.train_size:,} and {dataset.test_size:,}"
        defaults = ", ".join(f"`{key}` {value}" for key, value in {**PAPER_DEFAULTS, **dataset.defaults}.items())
        rows.append((f"`{name}`", images, "x".join(map(str, dataset.shape)), str(dataset.num_classes), defaults))
    return table(("data set", "train and test images", "shape", "classes", "defaults"), rows)


def partitions() -> str:
    """Every partition with its settings."""
    rows = [
        (f"`{name}`", says(type(partition)), listed_fields(partition.Settings, DataSettings, "data."))
        for name, partition in PARTITIONS.items()
    ]
    return table(("partition", "how", "settings"), rows)


def corruptions() -> str:
    """Every corruption with its default scale."""
    rows = []
    for name, corruption in CORRUPTIONS.items():
        scales = {corruption.default_scale(20, k) for k in range(1, 20)}
        scale = "by m and k" if len(scales) > 1 else "-" if scales == {None} else written(*scales)
        rows.append((f"`{name}`", says(type(corruption)), scale))
    return table(("corruption", "what corrupted clients do", "default scale"), rows)


def shifts() -> str:
    """Every shift with its default scale."""
    rows = [
        (f"`{name}`", says(type(shift)), "-" if shift.default_scale is None else written(shift.default_scale))
        for name, shift in SHIFTS.items()
    ]
    return table(("shift", "what it does to images", "default scale"), rows)


def indicators() -> str:
    """Every indicator with its settings and what it records."""
    rows = []
    for name, indicator in INDICATORS.items():
        recorded = code(column.name for column in indicator.columns())
        tables = code(f"{table}.csv" for table in (*indicator.tables, *indicator.final_tables))
        keys = listed_fields(indicator.Settings, BaseModel, "indicators.")
        rows.append((f"`{name}`", says(type(indicator)), "always" if keys == "-" else keys, recorded, tables))
    return table(("indicator", "what", "settings", "columns", "tables"), rows)


def files() -> str:
    """The tables that indicators write into a trial's folder."""
    rows = []
    for name, indicator in INDICATORS.items():
        for file, header in indicator.tables.items():
            rows.append((f"`{file}.csv`", f"indicator `{name}`, by round", code(("round", *header))))
        for file, header in indicator.final_tables.items():
            rows.append((f"`{file}.csv`", f"indicator `{name}`, of the final model", code(header)))
    return table(("file", "from", "columns"), sorted(rows))


def metrics() -> str:
    """Every metric with its label."""
    return table(("metric", "what"), ((f"`{name}`", metric.label) for name, metric in METRICS.items()))


def curves() -> str:
    """Everything that has a value in a round."""
    rows = ((f"`{name}`", column.label, f"`{column.file}.csv`") for name, column in columns().items())
    return table(("column", "what", "file"), rows)


def plots() -> str:
    """Every kind of plot with its fields."""
    rows = ((f"`{name}`", says(plot), listed_fields(plot, PlotSpec)) for name, plot in PLOTS.items())
    return table(("kind", "shows", "fields beside `panels` and `where`"), rows)


def checks() -> str:
    """Every check of a claim with its fields."""
    rows = ((f"`{name}`", says(check), listed_fields(check, ClaimSpec)) for name, check in CHECKS.items())
    return table(("check", "holds if", "fields beside `says`, `value`, `show`, `where` and `over`"), rows)


def trackers() -> str:
    """Every tracker."""
    return table(("tracker", "what"), ((f"`{name}`", says(tracker)) for name, tracker in TRACKERS.items()))


def studies() -> str:
    """Every built-in study."""
    rows = []
    for name, path in built_in("studies").items():
        raw = load_raw_yaml(path)
        rows.append((f"`{name}`", str(raw["shows"]), "; ".join(raw.get("paper", [])) or "-"))
    return table(("study", "shows", "in the paper"), rows)


def spaces() -> str:
    """Every built-in search space."""
    rows = []
    for name, path in built_in("search_spaces").items():
        raw = load_raw_yaml(path)
        only = raw["base"].get("method.name", "fedavg")
        rows.append((f"`{name}`", str(raw["tunes"]), "; ".join(raw.get("methods", [f"`{only}`"]))))
    return table(("space", "tunes", "methods"), rows)


def options(name: str) -> str:
    """The options of a command."""
    rows = []
    for action in parser_of(name)._actions:
        if "--help" in action.option_strings:
            continue
        names = action.option_strings[:1] or [""]
        value = action.metavar or ("|".join(action.choices) if action.choices else "")
        if action.nargs == 0 and action.option_strings:
            value = ""
        rows.append((f"`{' '.join(filter(None, (names[0], str(value))))}`", action.help or ""))
    return table(("option", "what it does"), rows)


def example(kind: str) -> str:
    """The whole example of a kind, which `fedbench new` writes under another name."""
    chosen = EXAMPLES[kind]
    language = {".py": "python", ".yaml": "yaml"}[Path(chosen.file).suffix]
    return f"```{language}\n{chosen.text}```"


LISTS: Mapping[str, Callable[[], str]] = {
    **{f"options-{name}": partial(options, name) for name in COMMANDS},
    **{f"example-{kind}": partial(example, kind) for kind in EXAMPLES},
    "study-file": partial(file_keys, Study),
    "space-file": partial(file_keys, Space),
    "columns": curves,
    "conclusion": conclusion.conclusion,
    "results": lambda: results_page.results(table),
    "published-distance": results_page.distance,
    "published-gammas": results_page.shrinking,
    "false-decisions": lambda: statistics_page.false_decisions(table),
    "true-decisions": lambda: statistics_page.true_decisions(table),
    "looks": lambda: statistics_page.looks(table),
    "rank-decisions": lambda: statistics_page.rank_decisions(table),
    **{
        make.__name__: make
        for make in (
            *(settings, methods, models, datasets, partitions, corruptions, shifts, indicators, files),
            *(metrics, plots, checks, trackers, studies, spaces),
        )
    },
}


def filled(text: str) -> str:
    """A page with its lists as they are now."""
    return BLOCK.sub(lambda match: f"{match[1]}\n{LISTS[match[2]]()}\n\n{match[3]}", text)


def stale_pages() -> dict[Path, str]:
    """The pages whose lists are not those of the code, and what they should be."""
    texts = {path: path.read_text(encoding="utf-8") for path in [*sorted(DOCS.glob("*.md")), DOCS.parent / "README.md"]}
    return {path: after for path, before in texts.items() if (after := filled(before)) != before}


def main(arguments: Sequence[str]) -> int:
    """Write, or check, every page; 1 if any is stale."""
    stale = stale_pages()
    if "--check" not in arguments:
        if DOCS / "results.md" in stale:
            results_page.draw_pictures()
            stale = stale_pages()  # with the new pictures
        for path, text in stale.items():
            path.write_text(text, encoding="utf-8")
    if stale:
        print(f"{'stale' if '--check' in arguments else 'renewed'}: {', '.join(path.name for path in stale)}")
    return 1 if stale and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
