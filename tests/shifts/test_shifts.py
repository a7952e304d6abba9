"""What shifts do to images."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.ndimage import rotate

from fedbench import UserError
from fedbench.shifts import SHIFTS, Shift
from fedbench.shifts.colour import hue_rotation

Images = NDArray[np.uint8]


def images(count: int = 5, height: int = 9, width: int = 9, channels: int = 3) -> Images:
    return np.random.default_rng(0).integers(0, 256, (count, height, width, channels), dtype=np.uint8)


def apply(name: str, given: Images, strength: float, seed: int = 0) -> Images:
    return SHIFTS.get(name).apply(given, strength, np.random.default_rng(seed))


@pytest.mark.parametrize("name", list(SHIFTS))
def test_no_strength_leaves_every_byte_and_any_strength_leaves_the_input(name: str) -> None:
    before = images()
    kept = before.copy()
    assert (apply(name, before, 0.0) == kept).all()
    changed = apply(name, before, 1.0)
    assert (before == kept).all()
    assert changed.dtype == np.uint8 and changed.shape == before.shape and (changed != kept).any()
    assert (apply(name, before, 1.0) == changed).all()


@given(
    name=st.sampled_from(list(SHIFTS)),
    strength=st.floats(0, 400),
    height=st.integers(1, 8),
    width=st.integers(1, 8),
    count=st.integers(1, 3),
)
def test_any_image_can_be_shifted_by_any_strength(
    name: str, strength: float, height: int, width: int, count: int
) -> None:
    given_ = images(count, height, width)
    assert apply(name, given_, strength).shape == given_.shape


@pytest.mark.parametrize("turns", [1, 2, 3, 4])
def test_quarter_turns_are_exact(turns: int) -> None:
    given_ = images(height=8, width=8)
    assert (apply("rotation", given_, 90.0 * turns) == np.rot90(given_, turns, axes=(1, 2))).all()


@pytest.mark.parametrize("degrees", [10.0, 45.0, 200.0])
def test_a_rotation_is_that_of_scipy(degrees: float) -> None:
    given_ = images(3, 12, 12)
    inside = (slice(None), slice(4, 8), slice(4, 8))  # scipy has its own way with what comes from beyond the edge
    expected = rotate(given_.astype(float), degrees, axes=(1, 2), reshape=False, order=1)
    assert np.abs(apply("rotation", given_, degrees)[inside] - expected[inside]).max() <= 1


def test_noise_has_its_standard_deviation_and_is_drawn_anew_for_each_image() -> None:
    grey = np.full((20, 32, 32, 1), 128, np.uint8)
    found = apply("noise", grey, 0.1) / 255.0
    assert found.std() == pytest.approx(0.1, rel=0.03) and found.mean() == pytest.approx(128 / 255, abs=0.003)
    assert (found[0] != found[1]).any()
    assert (apply("noise", grey, 0.1, seed=1) != apply("noise", grey, 0.1)).any()


def test_inversion_is_all_or_nothing_and_undoes_itself() -> None:
    given_ = images()
    assert (apply("inversion", given_, 0.49) == given_).all()
    assert (apply("inversion", given_, 0.5) == 255 - given_).all()
    assert (apply("inversion", apply("inversion", given_, 1.0), 1.0) == given_).all()


@given(degrees=st.floats(-400, 400))
def test_hue_rotations_keep_greys_and_lengths(degrees: float) -> None:
    matrix = hue_rotation(degrees).astype(float)
    assert matrix @ np.ones(3) == pytest.approx(np.ones(3), abs=1e-5)
    assert matrix @ matrix.T == pytest.approx(np.eye(3), abs=1e-5)


def test_a_third_of_a_turn_exchanges_the_colours() -> None:
    red = np.zeros((1, 2, 2, 3), np.uint8)
    red[..., 0] = 200
    found = apply("colour", red, 120.0)[0, 0, 0]
    assert sorted(found.tolist()) == [0, 0, 200] and found[0] == 0


def test_blur_keeps_the_mean_of_an_even_image_and_takes_away_the_contrast() -> None:
    given_ = images(3, 24, 24)
    assert (apply("blur", np.full_like(given_, 77), 2.0) == 77).all()
    assert apply("blur", given_, 2.0).std() < 0.25 * given_.std()


def test_grey_images_have_no_hue() -> None:
    assert "needs images of 3 channels" in str(SHIFTS.get("colour").check((1, 28, 28)))
    assert SHIFTS.get("colour").check((3, 32, 32)) is None


def test_a_shift_that_changes_the_shape_is_one_line() -> None:
    class Crop(Shift):
        name = "crop"

        def change(self, images: Any, strength: float, rng: np.random.Generator) -> Any:
            return images[:, 1:]

    with pytest.raises(UserError, match="shift 'crop': change must give an array"):
        Crop().apply(images(), 1.0, np.random.default_rng(0))
