"""Command lines, data files and plugins made wrong."""

import gzip
import os
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path

from hypothesis import strategies as st

from fedbench.base.explain import keys
from fedbench.config import TrialConfig
from fedbench.corruptions import CORRUPTIONS
from fedbench.data.partitions import PARTITIONS
from fedbench.methods import METHODS
from tests.fuzzing.damage import NUMBERS, ODD, ODD_WORDS, WORDS, corrupted, flow

SMALL = [
    "rounds=1",
    "data.train_size=60",
    "data.test_size=60",
    "clients.count=3",
    "clients.batch_size=20",
    "proxy.size=10",
]
SMALL += ["clients.epochs=1"]
FEW = [part for setting in SMALL for part in ("--set", setting)]
COSTLY = ("rounds", "train_size", "test_size", "count", "epochs", "batch_size", "size", "pool", "threads")


def typed(text: str) -> str:
    """A text as a system hands it on: it ends at a zero, and bytes that are no text stand for themselves."""
    return text.replace("\0", "").encode("utf-8", "surrogatepass").decode("utf-8", "surrogateescape")


def assignments(known: list[str]) -> st.SearchStrategy[str]:
    """KEY=VALUE: of keys that there are and values of any kind, or nearly so."""
    key = st.sampled_from(known)
    odd = st.sampled_from([*known, *WORDS]) | st.text(max_size=6)
    value = st.one_of(ODD.map(flow), ODD_WORDS, st.sampled_from(known))
    usual = st.tuples(key, value).map("=".join)
    return st.one_of(
        usual, usual, usual, st.tuples(odd, st.sampled_from(["=", "", "==", "=["]), value).map("".join)
    ).map(typed)


SETTINGS = assignments([key for key in dict.fromkeys(keys(TrialConfig)) if ".inner." not in key])
NUMBER = st.one_of(st.sampled_from(NUMBERS).map(flow), st.integers(-2, 99).map(str), ODD_WORDS)
SEEDS = st.one_of(st.lists(NUMBER, max_size=4).map(",".join), ODD_WORDS, st.just(",".join(map(str, range(300)))))
POINTS = st.one_of(
    st.tuples(
        st.sampled_from(["data.alpha", "method", "method.gamma", "x"]),
        st.lists(NUMBER | st.sampled_from(["A", "B", "1", "100"]), max_size=3).map(",".join),
    ).map("=".join),
    ODD_WORDS,
)
RESOURCES = st.one_of(ODD_WORDS, st.tuples(ODD_WORDS, NUMBER).map("=".join))
OPTIONS: dict[str, st.SearchStrategy[str]] = {
    "--seeds": SEEDS,
    "--only": POINTS,
    "--scale": ODD_WORDS | st.sampled_from(["tiny", "paper", "desk"]),
    "--resources": RESOURCES,
    "--cpus-per-trial": NUMBER,
    "--gpus-per-trial": NUMBER,
    "--max-concurrent": NUMBER,
    "--max-failures": NUMBER,
    "--track": ODD_WORDS | st.just("tensorboard"),
    "--import": ODD_WORDS,
    "--data-dir": ODD_WORDS,
    "--fresh": st.just(""),
    "--json": st.just(""),
}
SEARCHED = {"--trials": NUMBER, "--sampler": ODD_WORDS | st.sampled_from(["random", "cmaes"]), "--scheduler": ODD_WORDS}


@st.composite
def options(draw: st.DrawFn, known: dict[str, st.SearchStrategy[str]]) -> list[str]:
    """A few options with anything behind them."""
    chosen = draw(st.lists(st.sampled_from(sorted(known)), min_size=1, max_size=3))
    parts = []
    for name in chosen:
        value = typed(draw(known[name]))
        parts += [name, value] if draw(st.booleans()) else [f"{name}={value}"]
    return parts


@st.composite
def runs(draw: st.DrawFn) -> list[str]:
    """Settings of a small run: any rule, any partition, and numbers at their ends."""
    name = draw(st.sampled_from([method for method in METHODS if method != "flower"]))
    rule = METHODS.get(name)
    own = [f"method.{key}" for key in rule.Settings.model_fields if key not in ("name", "inner", "epochs", "steps")]
    known = [key for key in keys(TrialConfig) if not key.startswith(("method", "run", "data.name"))]
    known = [key for key in known if key.rpartition(".")[2] not in COSTLY and key not in ("model", "seed")]
    number = st.sampled_from(
        [0, 1, 2, 3, 0.5, 0.99, 1e-30, 1e-9, 1e9, 1e30, -1, "true", "null", "keep", "proxy", "all"]
    )
    parts = [f"method.name={name}", f"data.partition={draw(st.sampled_from(sorted(PARTITIONS)))}"]
    if "epochs" in rule.Settings.model_fields:
        parts.append("method.epochs=2")
    if draw(st.booleans()):
        parts += ["clients.corrupted=0.5", f"clients.corruption={draw(st.sampled_from(sorted(CORRUPTIONS)))}"]
    parts += [f"{key}={draw(number)}" for key in draw(st.lists(st.sampled_from(known + own * 3), max_size=3))]
    return [*FEW, *(part for setting in parts for part in ("--set", setting))]


# Data files: those of an own set, whose layout has no sums, so that its readers meet whatever is in them; and official
# ones, which are refused by their sums at the latest.
OWN_SET = """from functools import partial
from pathlib import Path
import numpy as np
from fedbench.data.base import Dataset, register_dataset
from fedbench.data.official import Layout, Official
from fedbench.data.readers import read_cifar_binary
from fedbench.data.sets.cifar import parser
from fedbench.data.sets.fashion_mnist import LAYOUT

idx = Layout(("own",), {name: () for name in LAYOUT.files}, LAYOUT.read, largest=100_000)
rows = Layout(("rows",), {"train.bin": (), "test.bin": ()}, parser(partial(read_cifar_binary, label_bytes=2)), 200_000)
for name, shape, layout in (("own_idx", (1, 28, 28), idx), ("own_rows", (3, 32, 32), rows)):
    load = Official(name, [layout], "NoSuchSet")
    register_dataset(Dataset(name, shape, 10, 60, 20, load, defaults={"model": "mlp"}), version="1")
"""


def idx(*shape: int) -> bytes:
    """An idx file of small numbers."""
    size = 1
    for side in shape:
        size *= side
    return bytes([0, 0, 8, len(shape)]) + struct.pack(f">{len(shape)}I", *shape) + bytes(n % 10 for n in range(size))


def rows(count: int) -> bytes:
    """A CIFAR file with two labels a row."""
    return b"".join(bytes([0, n % 10]) + bytes([n]) * 3072 for n in range(count))


IDX = {"train-images-idx3-ubyte": idx(60, 28, 28), "train-labels-idx1-ubyte": idx(60)}
IDX |= {"t10k-images-idx3-ubyte": idx(20, 28, 28), "t10k-labels-idx1-ubyte": idx(20)}
ROWS = {"train.bin": rows(60), "test.bin": rows(20)}
SETS = {"own_idx": ("own", IDX), "own_rows": ("rows", ROWS), "fashion_mnist": ("fashion-mnist", IDX)}
SETS["cifar100"] = ("cifar-100-binary", ROWS)
BOMB = gzip.compress(bytes(2**24)) * 320  # 5 GiB of zeros in 5 MiB


def put_bomb(path: Path) -> None:
    path.with_name(f"{path.name}.gz").write_bytes(BOMB)


def put_sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, 2**40)


THINGS: dict[str, Callable[[Path], object]] = {
    "nothing": lambda path: None,
    "a folder": Path.mkdir,
    "a pipe": os.mkfifo,
    "a link to nowhere": lambda path: path.symlink_to("nowhere"),
    "a link to itself": lambda path: path.symlink_to(path),
    "a link to its folder": lambda path: path.symlink_to("."),
    "an endless device": lambda path: path.symlink_to("/dev/zero"),
    "a link to another": lambda path: path.symlink_to("train.bin"),
    "a bomb": put_bomb,
    "a huge file": put_sparse,
    "a short gzip file": lambda path: path.with_name(f"{path.name}.gz").write_bytes(BOMB[:99]),
}


def _headed(valid: bytes, head: bytes) -> bytes:
    return head + valid[16:]


@st.composite
def data_files(draw: st.DrawFn) -> tuple[str, dict[str, bytes | str]]:
    """A data set, and what is to be in its folder: bytes, or the name of a thing."""
    name = draw(st.sampled_from(sorted(SETS)))
    content: dict[str, bytes | str] = dict(SETS[name][1])
    for file in draw(st.lists(st.sampled_from(sorted(content)), max_size=2)):
        valid = SETS[name][1][file]
        wrong = st.one_of(corrupted(valid[:16]).map(partial(_headed, valid)), corrupted(valid))
        zipped = corrupted(gzip.compress(valid))
        way = draw(st.sampled_from(["bytes", "bytes", "gzip", "thing"]))
        if way == "gzip":
            del content[file]
            content[f"{file}.gz"] = draw(zipped)
        else:
            content[file] = draw(wrong) if way == "bytes" else draw(st.sampled_from(sorted(THINGS)))
        if way == "gzip":
            break
    return name, content


def lay_out(folder: Path, content: dict[str, bytes | str]) -> None:
    """Make the files."""
    folder.mkdir()
    for name, what in content.items():
        if isinstance(what, bytes):
            (folder / name).write_bytes(what)
        else:
            THINGS[what](folder / name)


# Plugins: a module that works, into which something that raises is put somewhere.
PLUGIN = """import torch
from typing import Literal
from fedbench.base.fields import Strict
from fedbench.data.base import Arrays, Dataset, register_dataset
from fedbench.data.partitions import DataSettings, Partition, register_partition
from fedbench.indicators import Column, Indicator, Observation, register_indicator
from fedbench.methods import Method, MethodSettings, Update, register_method
from fedbench.metrics import register_metric
# module

class RuleSettings(MethodSettings):
    name: Literal["own_rule"] = "own_rule"
    # settings

@register_method()
class Rule(Method[RuleSettings]):
    Settings = RuleSettings
    # rule
    def start(self, n, w):
        # start
        return {"s": torch.zeros_like(w)}
    def aggregate(self, cohort, state, server):
        # aggregate
        return Update(cohort.combine(cohort.p), cohort.p)

class PieceSettings(DataSettings):
    partition: Literal["own_pieces"] = "own_pieces"

@register_partition()
class Pieces(Partition[PieceSettings]):
    Settings = PieceSettings
    def draw(self, settings, clients, samples, labels, rng):
        # draw
        import numpy as np
        return np.array_split(samples, clients)

class LookSettings(Strict):
    own_look: bool = False

@register_indicator()
class Look(Indicator[LookSettings]):
    name = "own_look"
    Settings = LookSettings
    def columns(self):
        # columns
        return (Column("own_number", "label"),)
    def observe(self, settings, moment):
        # observe
        return Observation({"own_number": 1.0})
"""
PLACES = ["module", "settings", "rule", "start", "aggregate", "draw", "columns", "observe"]
RAISED = ["1 / 0", "raise SystemExit", "raise SystemExit(0)", "raise SystemExit('x')", "raise GeneratorExit"]
RAISED += [
    "raise BaseException('x')",
    "raise Exception('a\\nb\\x1b')",
    "raise ValueError('x' * 10**6)",
    "raise ValueError('\\ud800')",
]
RAISED += [
    "raise RecursionError",
    "f = lambda: f(); f()",
    "import no_such_module",
    "import own",
    "from own import Nothing",
    "raise MemoryError",
]
RAISED += [
    "raise OSError(5, 'x')",
    "raise FileNotFoundError('x')",
    "raise BrokenPipeError",
    "raise TimeoutError",
    "raise StopIteration",
]
RAISED += [
    "raise ExceptionGroup('x', [ValueError('a'), TypeError()])",
    "raise type('Own', (Exception,), {'__str__': lambda s: 1 / 0})()",
]
RAISED += [
    "raise type('Own', (Exception,), {'__str__': lambda s: None})()",
    "raise type('O\\nwn', (Exception,), {})('x')",
    "raise 'x'",
    "assert False",
]
RAISED += [
    "(",
    "x = = 1",
    "return",
    "yield",
    "await x",
    "import sys; sys.exit(0)",
    "import sys; sys.exit('a\\nb')",
    "print('x', file=__import__('sys').stderr)",
]
RAISED += [
    "raise UnicodeDecodeError('utf-8', b'x', 0, 1, 'x')",
    "raise torch.OutOfMemoryError('x')",
    "raise Warning('x')",
    "raise AssertionError",
]
RAISED += ["import warnings; warnings.warn('a\\nb')", "del torch", "return None", "pass"]
RAISED += [
    "return 3",
    "return torch.zeros(0)",
    "cohort.p.fill_(3)",
    "return Update(None, None)",
    "return Update(cohort.combine(cohort.p) * float('nan'), cohort.p)",
]


@st.composite
def plugins(draw: st.DrawFn) -> bytes:
    """A module with something that raises in one or two places; sometimes not even Python."""
    text = PLUGIN
    for place in draw(st.lists(st.sampled_from(PLACES), min_size=1, max_size=2, unique=True)):
        text = text.replace(f"# {place}\n", draw(st.sampled_from(RAISED)) + "\n", 1)
    return draw(corrupted(text.encode())) if draw(st.integers(0, 9)) == 0 else text.encode()
