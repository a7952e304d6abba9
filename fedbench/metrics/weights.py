"""What weight clients get, and what it goes with."""

from collections.abc import Sequence

import numpy as np

from fedbench.indicators.heterogeneity import Floats, class_shares, heterogeneity_degree, weight_correlations
from fedbench.metrics.base import Metric, Reader, TrialData, register_metric, summary

CONVERGED = 0.05  # a learned weight has converged once so much of its way, or less, is left


def client_data(trial: TrialData) -> tuple[Floats, Floats, Floats]:
    """Of each client [n]: its weight summed over rounds, its number of samples, its heterogeneity degree."""
    counts = trial.table("partition").pivot(index="client", columns="class", values="samples")
    clients = trial.table("clients")
    weights = clients.groupby("client")["lambda"].sum() if len(clients) else clients.squeeze()
    sums = weights.reindex(counts.index, fill_value=0.0)
    matrix = counts.to_numpy()
    return sums.to_numpy(float), matrix.sum(1).astype(float), heterogeneity_degree(class_shares(matrix))


def correlation(key: str, label: str) -> Metric:
    """Pearson correlation, over the clients, of accumulated weights with `key`; pooled, over the clients of all."""

    def pool(trials: Sequence[TrialData]) -> float | None:
        sums, sizes, degrees = (np.concatenate(parts) for parts in zip(*map(client_data, trials), strict=True))
        return weight_correlations(sums, sizes, degrees)[f"pearson_{key}"]

    return Metric(f"correlation with {label}", summary(f"pearson_{key}"), 3, pool)


def weight_of_corrupted(trial: TrialData) -> float | None:
    """The weight of the corrupted clients over their share of the cohort's data, mean over rounds."""
    clients, swapped = trial.table("clients"), trial.summary.get("swapped_labels", {})  # all that older entries have
    corrupted = trial.summary.get("corrupted_clients", [int(client) for client in swapped])
    if not corrupted or clients.empty:  # a rule without weights has no table of them
        return None
    totals = clients.groupby("round")["samples"].sum()
    chosen = clients[clients["client"].isin(corrupted)].groupby("round")[["lambda", "samples"]].sum()
    ratio = chosen["lambda"] / (chosen["samples"] / totals.reindex(chosen.index))
    return float(ratio.mean()) if len(ratio) else None


def epochs_to_converge(name: str, value: str) -> Reader:
    """Server epochs until a learned weight is within 5 % of its way from its last value; mean over rounds."""

    def read(trial: TrialData) -> float | None:
        table = trial.table(name)
        if table.empty:
            return None
        if "client" not in table:
            table = table.assign(client=0)
        epochs = []
        for _, path in table.groupby("round"):
            points = path.pivot(index="epoch", columns="client", values=value).to_numpy()
            way = np.abs(points - points[-1]).sum(1)
            if way[0] > 0:
                epochs.append(float(np.flatnonzero(way > CONVERGED * way[0]).max(initial=0) + 2))
        return float(np.mean(epochs)) if epochs else None

    return read


register_metric("pearson_size", correlation("size", "data size"))
register_metric("pearson_degree", correlation("degree", "heterogeneity degree"))
register_metric("pearson_product", correlation("product", "size x degree"))
register_metric(
    "weight_of_corrupted", Metric("weight of corrupted clients / their share of data", weight_of_corrupted, 3)
)
register_metric(
    "gamma_epochs", Metric("server epochs until gamma converges", epochs_to_converge("server_path", "gamma"), 1)
)
register_metric(
    "lambda_epochs", Metric("server epochs until lambda converges", epochs_to_converge("server_lambda", "lambda"), 1)
)
