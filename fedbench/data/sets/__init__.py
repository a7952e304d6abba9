"""The data sets, one file a family; every module here registers what it holds."""

from fedbench.base.registry import import_all

import_all(__name__, __path__)
