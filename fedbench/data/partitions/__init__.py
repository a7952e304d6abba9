"""The partitions of a training set over clients, one file each: a partition's settings and its rule together."""

from fedbench.data.partitions.base import PARTITIONS, DataSettings, Partition, register_partition

__all__ = ["PARTITIONS", "DataSettings", "Partition", "register_partition"]
