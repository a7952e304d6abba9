"""What the files of an entry may say. Entries come from strangers, too, so everything that is read has its type."""

import json
from functools import lru_cache
from pathlib import PurePath
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

Status = Literal["done", "diverged", "failed"]
LARGEST = 2**23  # bytes of a mark, a summary or an environment; ours have some thousands
NEEDED = (  # what the summary of a finished trial has at least
    *("final_accuracy", "best_accuracy", "last_accuracy", "rounds"),
    *("seconds_train", "seconds_server", "seconds_eval", "peak_memory_bytes"),
)

# How a trial ends that leaves no entry:
UNSTORED = "not stored"  # how a trial ends that the file system has stopped: the next command goes on with it
UNCAPTURED = "not captured"  # how a trial ends whose steps cannot be captured: it goes on in another process, without


@lru_cache(maxsize=1024)  # entries have files of the same names
def _plain(name: str) -> str:
    if PurePath(name).name != name or name in ("", ".."):
        raise ValueError(f"{name!r} is not the plain name of a file")
    return name


def _number(text: str) -> str:
    float(text)  # ValueError for anything else
    return text


FileName = Annotated[str, AfterValidator(_plain)]
Sum = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Count = Annotated[int, Field(ge=0, le=2**53)]
NumberText = Annotated[str, AfterValidator(_number)]
CountText = Annotated[str, Field(pattern=r"^[0-9]{1,15}$")]


class _Content(BaseModel):
    """Plain data of which some keys are known; other keys, such as those of another version, are ignored."""

    model_config = ConfigDict(frozen=True, strict=True)


class Mark(_Content):
    """trial.json: the hash of the trial, how it ended, its summary, and the checksums of all other files."""

    hash: str
    status: Status
    reason: str | None
    summary: dict[str, Any]
    files: dict[FileName, Sum]


class Summary(_Content):
    """summary.json, as far as anything reads it."""

    status: str | None = None
    reason: str | None = None
    rounds: Count | None = None
    final_accuracy: FiniteFloat | None = None
    final_loss: FiniteFloat | None = None
    best_accuracy: FiniteFloat | None = None
    best_round: Count | None = None
    last_accuracy: FiniteFloat | None = None
    last_loss: FiniteFloat | None = None
    final_validation_accuracy: FiniteFloat | None = None
    middle_gamma: FiniteFloat | None = None
    middle_r: FiniteFloat | None = None
    middle_norm_opt: FiniteFloat | None = None
    middle_norm_reg: FiniteFloat | None = None
    critical_round: Count | None = None
    rounds_to_accuracy: dict[NumberText, Count | None] = {}
    seconds_train: FiniteFloat | None = None
    seconds_server: FiniteFloat | None = None
    seconds_eval: FiniteFloat | None = None
    pearson_size: FiniteFloat | None = None
    pearson_degree: FiniteFloat | None = None
    pearson_product: FiniteFloat | None = None
    parameters: Count | None = None
    near_zero_share: FiniteFloat | None = None
    bytes_up: Count | None = None
    bytes_down: Count | None = None
    peak_memory_bytes: Count | None = None
    peak_gpu_memory_bytes: Count | None = None
    peak_gpu_reserved_bytes: Count | None = None
    partition_redraws: Count | None = None
    test_samples: Count | None = None
    corrupted_clients: list[Count] = []
    swapped_labels: dict[CountText, list[Count]] = {}


class Environment(_Content):
    """environment.json, as far as tables show it; `earlier`: the environments before the run was resumed."""

    device_name: str
    threads: Count
    torch: str
    fedbench: str | None
    cuda: str | None = None
    cudnn: str | None = None
    driver: str | None = None
    earlier: "list[Environment]" = []

    def __str__(self) -> str:
        threads = f"{self.threads} thread{'s' * (self.threads != 1)}"
        libraries = {"CUDA": self.cuda, "cuDNN": self.cudnn, "driver": self.driver}
        gpu = "".join(f", {name} {version}" for name, version in libraries.items() if version)
        return f"{self.device_name}, {threads}, torch {self.torch}, fedbench {self.fedbench}{gpu}"


def read_mark(content: bytes) -> Mark:
    """Return the mark from the bytes of its file; ValueError, in one line, if it is not valid."""
    mark = _read(Mark, content)
    summary = _checked(Summary, mark.summary, "summary")
    if mark.status == "done":
        if missing := [name for name in NEEDED if getattr(summary, name) is None]:
            raise ValueError(f"its summary has no {missing[0]}")
        if not summary.rounds:
            raise ValueError("its summary has no rounds")
    return mark


def read_summary(content: bytes) -> dict[str, Any]:
    """Return a summary from the bytes of its file; ValueError if it is not valid."""
    plain: dict[str, Any] = _plain_data(content)
    _checked(Summary, plain, "summary")
    return plain


def read_environment(content: bytes) -> Environment:
    """Return an environment from the bytes of its file; ValueError if it is not valid."""
    return _read(Environment, content)


C = TypeVar("C", bound=_Content)


def _read(kind: type[C], content: bytes) -> C:
    return _checked(kind, _plain_data(content), kind.__name__.lower())


def _plain_data(content: bytes) -> Any:
    """Return the parsed JSON; ValueError if it is too large or nested too deeply."""
    if len(content) > LARGEST:
        raise ValueError(f"more than {LARGEST} bytes")
    try:
        return json.loads(content)
    except RecursionError:
        raise ValueError("not JSON (nested too deeply)") from None


def _checked(kind: type[C], plain: Any, what: str) -> C:
    try:
        return kind.model_validate(plain)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        path = first["loc"][:-2] if first["loc"][-1:] == ("[key]",) else first["loc"]
        where = ".".join([what, *map(str, path)])
        raise ValueError(f"{where}: {first['msg'].removeprefix('Value error, ')}") from None
