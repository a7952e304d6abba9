"""The server side on fake CUDA tensors, without a GPU: prints what ran, fails where devices are mixed.

Run in a process of its own (python -m tests.simulation.fake_cuda NAME...): it replaces parts of torch.Tensor that ask
for a real GPU by the same through torch's operations. Nothing here may need gradients: fake CUDA aborts there.
"""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from fedbench import TrialConfig
from fedbench.corruptions import CORRUPTIONS, CorruptedCohort
from fedbench.methods import METHODS, Cohort, LocalWork, Server, Update
from fedbench.methods.learned import BASES
from fedbench.methods.optimisers import Adam
from fedbench.models import Layers, TensorSpan
from fedbench.simulation.batchnorm import aggregate_statistics

CUDA = torch.device("cuda:0")
M, P, Q, CLASSES = 5, 12, 4, 10
SERVER: Any = Server(None, None, lambda purpose: np.random.default_rng(0))  # type: ignore[arg-type]


def item(x: Tensor, key: Any) -> Tensor:
    """x[key]."""
    dim, keys, aten = 0, key if isinstance(key, tuple) else (key,), torch.ops.aten
    for at in keys:
        if at is Ellipsis:
            dim = x.dim() - len(keys) + keys.index(Ellipsis)
        elif at is None:
            x = aten.unsqueeze.default(x, dim)
        elif isinstance(at, int):
            x, dim = aten.select.int(x, dim, at), dim - 1
        elif isinstance(at, slice):
            x = aten.slice.Tensor(x, dim, at.start, at.stop, at.step or 1)
        elif isinstance(at, Tensor):
            x = aten.index.Tensor(x, [None] * dim + [at])
        else:  # a list: torch moves it to where x is
            x = aten.index.Tensor(x, [None] * dim + [torch.tensor(at, device=x.device)])
        dim += 1
    return x


def number(x: Tensor) -> Any:
    """Some value for a number that only a GPU would know."""
    assert x.numel() == 1
    return True if x.dtype == torch.bool else 0.5 if x.is_floating_point() else 1


def array(x: Tensor) -> Any:
    """Some values; of a tensor that is still on the GPU torch makes no array."""
    if x.device.type != "cpu":
        raise TypeError("can't convert a CUDA tensor to numpy; copy it to the CPU first")
    return np.ones(tuple(x.shape), str(x.dtype).removeprefix("torch."))


def replace_what_needs_a_gpu() -> None:
    tensor: Any = Tensor
    tensor.__getitem__ = item
    tensor.__setitem__ = lambda x, key, value: torch.ops.aten.copy_.default(item(x, key), value)
    tensor.copy_ = lambda x, value, non_blocking=False: torch.ops.aten.copy_.default(x, value)
    tensor.pin_memory = lambda x: x
    tensor.T = property(lambda x: x.permute(*reversed(range(x.dim()))))
    tensor.item = tensor.__float__ = number
    tensor.__int__ = tensor.__index__ = lambda x: int(number(x))
    tensor.__bool__ = lambda x: bool(number(x))
    tensor.tolist = lambda x: array(x.cpu()).tolist()
    tensor.numpy = array


def cohort_of(reports: tuple[str, ...]) -> Cohort:
    """A second round."""
    p, w, W, B = torch.full((M,), 1 / M, device=CUDA), rand(P), rand(M, P), rand(M, Q)
    work = LocalWork(torch.full((M,), 10.0, dtype=torch.float64, device=CUDA), 1, 32, 0.1, 0.9, True, 5e-4, 0.1)
    spans = (TensorSpan("one", 0, 6, torch.Size([6])), TensorSpan("two", 6, P, torch.Size([P - 6])))
    counts = torch.ones(M, CLASSES, dtype=torch.int64, device=CUDA)
    told: Any = {"loss": rand(M).double(), "class_counts": counts, "gradient": rand(M, P)}
    sizes = torch.full((M,), 10, device=CUDA)
    reported: Any = {name: told[name] for name in reports}
    return Cohort(2, tuple(range(M)), p, w, W, B, p @ B, "average", 0.5, M, sizes, work, Layers(spans, spans), reported)


def rand(*shape: int) -> Tensor:
    return torch.rand(*shape, device=CUDA)


def method(name: str) -> None:
    """Two rounds of a method's server side, its corrections, and running statistics."""
    fields = METHODS.get(name).Settings.model_fields
    few = {key: value for key, value in {"method.f": 0.0, "method.epochs": 0}.items() if key[7:] in fields}
    config = TrialConfig(**{"method.name": name, "clients.count": M, **few})
    rule, cohort = METHODS.get(name)(config.method), cohort_of(config.method.reports)
    state = rule.start(M, cohort.w)
    for _ in range(2):
        rule.correction(state, 0, cohort.w)
        update = rule.aggregate(cohort, state, SERVER)
        there(update.w, update.lambda_, update.buffers, aggregate_statistics(cohort, update, SERVER))
        state = update.state


def corruption(name: str) -> None:
    """What corrupted clients send."""
    given = (rand(2, P), rand(2, Q), rand(3, P), rand(P), rand(Q))
    cohort = CorruptedCohort((0, 1), *given, 1.0, lambda client: np.random.default_rng(client))
    there(CORRUPTIONS.get(name).updates(cohort), CORRUPTIONS.get(name).statistics(cohort))


def learning(name: str) -> None:
    """FedLAW's analytic gradients, and a step of Adam along them."""
    base = BASES[name](torch.full((M,), 1 / M, device=CUDA, dtype=torch.float64))
    x, y = base.start()
    adam, W, grad = Adam([x, y]), rand(M, P), rand(P)
    for numbers in adam.ahead([0.1, 0.05]):
        gamma = base.gamma(y)
        x.grad = base.pull_back(x, (W @ grad).double() * gamma)
        y.grad = base.pull_back_gamma(y, (grad @ (base.lambda_(x).to(W) @ W)).double())
        adam.step(numbers)
    there(x, y, numbers)


def mixed(name: str) -> None:
    """A rule with a mistake that no CPU shows: equal weights, made on the wrong device."""
    cohort = cohort_of(())
    there(Update(w=cohort.combine(torch.full((M,), 1 / M)), lambda_=cohort.p).w)


def there(*tensors: Tensor | None) -> None:
    """All of them are on the GPU."""
    wrong = [tensor.device for tensor in tensors if tensor is not None and tensor.device != CUDA]
    assert not wrong, f"on {wrong[0]}"


KINDS: dict[str, Callable[[str], None]] = {
    "method": method,
    "corruption": corruption,
    "learning": learning,
    "mixed": mixed,
}


if __name__ == "__main__":
    replace_what_needs_a_gpu()
    for text in sys.argv[1:]:
        kind, _, name = text.partition(":")
        with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
            KINDS[kind](name)
        print(text, flush=True)
