"""Partitions of the training set over clients. Each module defines one partition and its settings."""

from fedbench.data.partitions.base import PARTITIONS, DataSettings, Partition, register_partition

__all__ = ["PARTITIONS", "DataSettings", "Partition", "register_partition"]
