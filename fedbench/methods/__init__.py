"""The aggregation methods, one file each: a method's settings and its rule together."""

from fedbench.base.registry import import_all
from fedbench.methods.base import (
    METHODS,
    BatchNormRule,
    Cohort,
    Correction,
    Method,
    MethodSettings,
    ProxyData,
    Server,
    Update,
    register_method,
)

import_all(__name__, __path__)

__all__ = [
    "METHODS",
    "BatchNormRule",
    "Cohort",
    "Correction",
    "Method",
    "MethodSettings",
    "ProxyData",
    "Server",
    "Update",
    "register_method",
]
