"""Tiny-ImageNet, 200 classes of 64x64 images, read from its official archive of JPEG files."""

import io
import zipfile
from collections.abc import Mapping, Sequence

import numpy as np

from fedbench.base.errors import UserError
from fedbench.data.base import Arrays, Dataset, register_dataset
from fedbench.data.official import Layout, Official
from fedbench.data.readers import Labelled, open_zip, unzip

FOLDER = "tiny-imagenet-200"
ARCHIVE = f"{FOLDER}.zip"
SIDE = 64
LARGEST = 2**20  # bytes of a file in the archive


def parse(blobs: Mapping[str, bytes]) -> Arrays:
    """Parse the archive. The test set is its validation set, since its test images have no labels.

    Labels are numbered by the order in `wnids.txt`.
    """
    with open_zip(blobs[ARCHIVE], ARCHIVE) as archive:
        names = _lines(archive, f"{FOLDER}/wnids.txt")
        number = {name: label for label, name in enumerate(names)}
        train: list[tuple[str, str]] = []
        for member in sorted(archive.namelist()):
            parts = member.split("/")
            if parts[:2] == [FOLDER, "train"] and len(parts) == 5 and parts[4].endswith(".JPEG"):
                train.append((member, parts[2]))
        rows = [line.split("\t") for line in _lines(archive, f"{FOLDER}/val/val_annotations.txt")]
        test = [(f"{FOLDER}/val/images/{row[0]}", row[1]) for row in rows if len(row) > 1]
        for member, name in (*train, *test):
            if name not in number:
                raise UserError(f"{member}: class {name} is not in wnids.txt")
        return Arrays(*_labelled(archive, train, number), *_labelled(archive, test, number))


def _lines(archive: zipfile.ZipFile, member: str) -> list[str]:
    return [line.strip() for line in unzip(archive, member, LARGEST).decode("ascii", "replace").splitlines() if line]


def _labelled(archive: zipfile.ZipFile, chosen: Sequence[tuple[str, str]], number: Mapping[str, int]) -> Labelled:
    """Decode images to [N, 64, 64, 3], grey ones with three equal colours, and number their classes."""
    try:
        from PIL import Image
    except ImportError as error:
        raise UserError("tiny_imagenet: pillow is needed for its JPEG files; pip install pillow") from error
    images = np.empty((len(chosen), SIDE, SIDE, 3), np.uint8)
    for row, (member, _) in enumerate(chosen):
        content = unzip(archive, member, LARGEST)
        try:
            with Image.open(io.BytesIO(content), formats=["JPEG"]) as image:
                pixels = np.asarray(image.convert("RGB")) if image.size == (SIDE, SIDE) else None
        except (OSError, ValueError, SyntaxError) as error:
            raise UserError(f"{member}: cannot be decoded ({error})") from error
        if pixels is None:
            raise UserError(f"{member}: not an image of {SIDE}x{SIDE} pixels")
        images[row] = pixels
    return images, np.array([number[name] for _, name in chosen], np.int64)


LAYOUT = Layout(
    folders=("tiny-imagenet", "."),
    files={ARCHIVE: ("90528d7ca1a48142e341f4ef8d21d0de",)},  # not official; many public readers agree on it
    read=parse,
)


register_dataset(
    Dataset(
        name="tiny_imagenet",
        shape=(3, SIDE, SIDE),
        num_classes=200,
        train_size=100_000,
        test_size=10_000,
        load=Official("tiny_imagenet", [LAYOUT], urls=[f"http://cs231n.stanford.edu/{ARCHIVE}"]),
        mean=0.5,
        std=0.5,
        defaults={"model": "resnet20", "clients.lr": 0.01, "clients.weight_decay": 5e-5},
    )
)
