"""Types of settings, with the ranges that error messages show.

The upper ends only keep numbers within what float32 and the system can hold.
"""

from typing import Annotated

from pydantic import Field

Positive = Annotated[float, Field(gt=0, le=1e30)]
NonNegative = Annotated[float, Field(ge=0, le=1e30)]
Share = Annotated[float, Field(ge=0, lt=1)]
Count = Annotated[int, Field(ge=1, le=10**9)]
Whole = Annotated[int, Field(ge=0, le=10**9)]
