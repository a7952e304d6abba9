"""How well the global model does for each client, and for the clients that it serves worst.

A client's accuracy is measured on its own test data, where clients have any: what they hold out, or the test samples of
their owners. Otherwise it is the accuracy that is expected under the client's label mix: sum_c q_ic a_c, with q_i the
class shares of client i and a_c the final model's test accuracy on class c; where clients have models of their own, it
is that of the client's. That assumes that images of a class look alike at all clients, so nothing is expected where
they do not.
"""

from collections.abc import Callable, Mapping
from math import ceil
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedbench.data.partitions import PARTITIONS
from fedbench.indicators.heterogeneity import expected_accuracy
from fedbench.metrics.base import MARGIN, Metric, TrialData, register_metric
from fedbench.shifts import NO_SHIFT

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
KEPT = "client accuracies"
MEASURED = "accuracy of clients: measured on their own test data"
EXPECTED = "accuracy of clients: expected under their label mixes, from the accuracy on each class"
NOT_KNOWN = "accuracy of clients: not known where they differ in more than their labels and have no test data"


class ClientAccuracies(NamedTuple):
    """The final model's accuracy for each client: ids [n], numbers of samples [n], accuracies [n] (fractions).

    measured: whether the accuracies are measured on the clients' own test data; samples are then those. Otherwise
    accuracies are expected under label mixes, and samples are all that a client has.
    """

    clients: NDArray[np.int64]
    samples: NDArray[np.int64]
    accuracy: Floats
    measured: bool

    @property
    def mean(self) -> float:
        """The mean over clients, by numbers of samples."""
        return float(self.samples @ self.accuracy / self.samples.sum())

    @property
    def worst_tenth(self) -> float:
        """The mean over the tenth of the clients with the lowest accuracies, rounded up to whole clients."""
        return float(np.sort(self.accuracy)[: ceil(len(self.accuracy) / 10)].mean())


def client_accuracies(trial: TrialData) -> ClientAccuracies | None:
    """The accuracy of every client of a finished trial; None where it is neither measured nor expected."""
    if KEPT not in trial.kept:
        trial.kept[KEPT] = _measured(trial) or _expected(trial)
    kept: ClientAccuracies | None = trial.kept[KEPT]
    return kept


def _measured(trial: TrialData) -> ClientAccuracies | None:
    """Return the accuracies that the trial measured on the clients' own test data; None without such data."""
    table = trial.table("client_scores")
    if table.empty:
        return None
    clients, samples, accuracy = (table[name].to_numpy() for name in ("client", "samples", "accuracy"))
    return ClientAccuracies(clients, samples, accuracy, measured=True)


def _expected(trial: TrialData) -> ClientAccuracies | None:
    """Return accuracies expected from each client's label mix; None where clients differ in more than labels.

    None as well where a client has samples of a class that the test set lacks.
    """
    classes = trial.table("classes")
    if classes.empty or not _only_labels_differ(settings := trial.settings()):
        return None
    clients, labels, held = _matrix(trial.table("partition"), "samples")
    federated = clients < settings["clients"]["count"]  # without a proxy set that takes part as a client
    clients, held = clients[federated], held[federated]
    own = trial.table("client_classes")
    if own.empty:
        of_class = dict(zip(classes["class"], classes["accuracy"], strict=True))
        by_class = np.array([[of_class.get(label, np.nan) for label in labels]], dtype=float)
    else:
        table = own.pivot(index="client", columns="class", values="accuracy")
        by_class = table.reindex(index=clients, columns=labels).to_numpy(float)
    if np.isnan(by_class[:, held.any(0)]).any():
        return None
    accuracy = expected_accuracy(held, np.nan_to_num(by_class))
    return ClientAccuracies(clients, held.sum(1), accuracy, measured=False)


def _matrix(table: "pd.DataFrame", value: str) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return clients [n], classes [C] and the values [n, C] of a table with a row for each client and class."""
    clients, rows = np.unique(table["client"].to_numpy(), return_inverse=True)
    classes, columns = np.unique(table["class"].to_numpy(), return_inverse=True)
    matrix = np.zeros((len(clients), len(classes)), dtype=np.int64)
    matrix[rows, columns] = table[value].to_numpy()
    return clients, classes, matrix


def _only_labels_differ(settings: Mapping[str, Any]) -> bool:
    """Return whether, by a trial's settings, clients differ only in their labels and numbers of samples."""
    name = settings["data"]["partition"]
    shift = settings.get("clients", {}).get("shift", NO_SHIFT)
    return name in PARTITIONS and not PARTITIONS.get(name).by_owner and shift == NO_SHIFT


def basis(trial: TrialData) -> str:
    """Return whether the accuracy of a finished trial's clients was measured or is expected, in words."""
    found = client_accuracies(trial)
    return NOT_KNOWN if found is None else MEASURED if found.measured else EXPECTED


def _of_clients(
    label: str, reduce: Callable[[ClientAccuracies], float], better: Literal["higher", "lower"] = "higher"
) -> Metric:
    def read(trial: TrialData) -> float | None:
        found = client_accuracies(trial)
        return None if found is None else 100 * reduce(found)

    return Metric(label, read, better=better, basis=basis, margin=MARGIN if better == "higher" else None)


for _name, _label, _reduce in (
    ("client_accuracy", "accuracy of clients, mean by data size (%)", lambda found: found.mean),
    ("worst_client", "accuracy of the worst client (%)", lambda found: float(found.accuracy.min())),
    ("worst_tenth", "accuracy of the worst tenth of clients (%)", lambda found: found.worst_tenth),
):
    register_metric(_name, _of_clients(_label, _reduce))
register_metric(
    "client_spread",
    _of_clients("standard deviation of accuracy over clients", lambda found: float(found.accuracy.std()), "lower"),
)
