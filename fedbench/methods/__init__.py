"""The aggregation methods, one file each: a method's settings and its rule together."""

from fedbench.methods.base import (
    METHODS,
    BatchNormRule,
    Cohort,
    Correction,
    LocalWork,
    Method,
    MethodSettings,
    ProxyData,
    Server,
    Update,
    register_method,
)

__all__ = [
    "METHODS",
    "BatchNormRule",
    "Cohort",
    "Correction",
    "LocalWork",
    "Method",
    "MethodSettings",
    "ProxyData",
    "Server",
    "Update",
    "register_method",
]
