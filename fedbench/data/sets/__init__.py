"""The data sets, one file a family; every module here registers what it holds."""
