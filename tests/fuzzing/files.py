"""Valid files to begin with, and the words that stand in them."""

from collections.abc import Iterator
from typing import Any

from ruamel.yaml import YAML

from fedbench.base.explain import keys
from fedbench.config import TrialConfig
from fedbench.corruptions import CORRUPTIONS
from fedbench.data.base import DATASETS
from fedbench.data.partitions import PARTITIONS
from fedbench.methods import METHODS
from fedbench.metrics import METRICS
from fedbench.models import MODELS
from fedbench.specs.expand import study_files
from fedbench.specs.parts import CHECKS, PLOTS
from fedbench.specs.space import space_files

STUDY = """title: Mine
shows: That it works.
paper: [table 1]
base: {data.train_size: 60, data.test_size: 60, clients.count: 3, proxy.size: 10, rounds: 2}
grid:
  data.alpha: [100, 1]
  method:
    A: {method.name: fedavg}
    B: {method.name: fixed_gamma, method.gamma: 0.9}
skip: [{data.alpha: [3], method: [B]}]
seeds: [8, 9]
score: {rounds: 2}
baseline: {method: A}
tables:
  accuracy: {rows: [data.alpha], columns: [method], best: row, costs: true}
  gain: {rows: [data.alpha], columns: [method], value: [test_accuracy, seconds], show: difference, where: {method: [B]}}
plots:
  curves: {kind: curves, y: [test_accuracy, train_loss], colour: method, panels: [data.alpha]}
  sweep: {kind: sweep, x: data.alpha, y: test_accuracy, colour: method, log: true}
claims:
  - {says: B is better, check: beats, point: {method: B}, source: mine}
  - {says: it rises, check: trend, axis: data.alpha, direction: rises, over: [method]}
  - {says: it is small, check: within, low: 3, high: 80, where: {data.alpha: [1]}}
ranks: {axis: method, margin: 0.5}
scales:
  quick: {}
  paper: {base: {rounds: 1}, grid: {data.alpha: [100, 1, 3]}, seeds: [8], score: {rounds: 1}}
  tiny: {base: {eval_every: 2}}
marks: {method: {A: S, B: W}, rounds: [{mark: I, tables: [gain], values: [seconds], where: {method: [A]}}], model: W}
reference:
  tolerance: {test_accuracy: 2.5, seconds: 1}
  not_comparable: [{where: {method: [B]}, why: it is not}]
  accuracy: [[100, 65.5, 67.6], [1, null, 60.0]]
"""
SPACE = """title: Mine
tunes: gamma, and how fast clients learn
base: {data.train_size: 400, data.test_size: 300, clients.count: 5, rounds: 3, data.validation: 0.2}
methods:
  A: {method.name: fixed_gamma}
  B: {method.name: fedprox, clients.momentum: 0.5}
parameters:
  clients.lr: {loguniform: [1e-3, 0.1]}
  clients.epochs: {int: [1, 5], step: 2}
  method.gamma: [{uniform: [0.9, 1.0], when: {method.name: fixed_gamma}}]
  clients.momentum_state: {choice: [keep, reset], when: {method.name: [fedprox, fedavg]}}
metric: validation_accuracy
score: {rounds: 2}
trials: 3
rounds: 2
suggestion_seeds: [1, 2]
seeds: [8]
scales:
  quick: {methods: [A, B]}
  paper: {base: {clients.count: 9}, trials: 9, seeds: [8, 9], suggestion_seeds: [3]}
"""
CONFIG = """data: {name: mnist5k, partition: dirichlet, alpha: 0.5, longtail: 2.0, train_size: 300, validation: 0.1}
model: mlp
clients: {count: 5, participation: 0.8, epochs: 1, lr: 0.05, corrupted: 0.2, corruption: sign_flip, holdout: 0.1}
server.global_lr: 0.9
proxy: {size: 20, pool: 40, longtail: 1.0}
method: {name: fedlws, beta: 0.1, inner: {name: fedprox, mu: 0.01}}
rounds: 2
eval_every: 2
seed: 9
precision: float32
indicators: {simplex_every: 0, coherence: cohort, server_path: true}
run: {device: cpu, threads: 1, engine: eager}
"""


def parsed(text: str) -> Any:
    """A YAML text as plain data."""
    return YAML(typ="safe", pure=True).load(text)


def words_in(value: Any) -> Iterator[Any]:
    """All keys and values of plain data."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from words_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from words_in(inner)
    else:
        yield value


def vocabulary() -> list[Any]:
    """Everything that has a meaning somewhere."""
    registries = (METHODS, MODELS, DATASETS, PARTITIONS, CORRUPTIONS, METRICS, PLOTS, CHECKS)
    words = [word for registry in registries for word in registry]
    words += [key for key in keys(TrialConfig) if ".inner." not in key]
    for text in (STUDY, SPACE, CONFIG):
        words += words_in(parsed(text))
    return list({repr(word): word for word in words}.values())


def built_in(kind: str) -> list[str]:
    """The smaller ones of the studies, or search spaces, that come with fedbench."""
    files = study_files() if kind == "study" else space_files()
    return [path.read_text() for path in files.values() if path.stat().st_size < 2100]
