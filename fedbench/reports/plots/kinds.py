"""The kinds of figures by name."""

from collections.abc import Mapping

from fedbench.reports.plots import clients, series, server
from fedbench.reports.plots.base import Kind

KINDS: Mapping[str, Kind] = {
    "curves": Kind(series.curves),
    "sweep": Kind(series.sweep, series.sweep_parts),
    "distribution": Kind(series.distribution),
    "profile": Kind(series.profile),
    "heatmap": Kind(clients.heatmap, clients.heatmap_parts, (2.9, 2.5)),
    "partition": Kind(clients.partition, size=(3.6, 2.6)),
    "cohort": Kind(clients.cohort, clients.cohort_parts),
    "weights": Kind(clients.weights, clients.weights_parts),
    "server_path": Kind(server.path, server.path_parts),
    "simplex": Kind(server.simplex, server.simplex_parts, (3.0, 2.7)),
}
