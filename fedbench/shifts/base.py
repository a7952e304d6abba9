"""What a shift is: a change of a client's images that grows with the client's level."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedbench.base.errors import ConfigError, UserError
from fedbench.base.registry import Registry, with_brackets

Pixels = NDArray[np.float32]
NO_SHIFT = "none"
CHUNK = 5000  # images that are changed at a time, to bound the memory


class Shift(ABC):
    """A change of images. Subclasses have a `name` and are stateless.

    `default_scale` is the strength at level 1 where `clients.shift_scale` is not set; None: the shift has no scale, and
    its strength is the level itself.
    """

    name: ClassVar[str]
    default_scale: ClassVar[float | None] = None

    def check(self, shape: tuple[int, int, int]) -> str | None:
        """Return what is wrong with images of a shape (C, H, W) ("needs ..."), None if nothing is."""
        return None

    @abstractmethod
    def change(self, images: Pixels, strength: float, rng: np.random.Generator) -> Pixels:
        """Return images [N, H, W, C] changed by a strength above 0; pixels go from 0 to 1, and are clipped to it."""

    def apply(self, images: NDArray[np.uint8], strength: float, rng: np.random.Generator) -> NDArray[np.uint8]:
        """Return changed images [N, H, W, C], rounded to whole pixels; the images themselves for strength 0."""
        if strength == 0:
            return images
        result = np.empty_like(images)
        for start in range(0, len(images), CHUNK):
            part = images[start : start + CHUNK]
            changed = self.change((part / 255).astype(np.float32), strength, rng)
            if not isinstance(changed, np.ndarray) or changed.shape != part.shape:
                raise UserError(f"shift '{self.name}': change must give an array {part.shape}")
            result[start : start + CHUNK] = np.rint(np.clip(changed, 0, 1) * 255)
        return result


SHIFTS: Registry[Shift] = Registry("shift", home="fedbench.shifts")

S = TypeVar("S", bound=type[Shift])


def register_shift(version: str | None = None) -> Callable[[S], S]:
    """Decorate a Shift subclass, which has a `name`; a plugin may give a `version`."""
    with_brackets("register_shift()", version)

    def register(shift: S) -> S:
        if shift.name == NO_SHIFT:
            raise ConfigError(f"shift '{NO_SHIFT}': this name is for no shift; choose another name")
        SHIFTS.add(shift.name, shift(), version)
        return shift

    return register
