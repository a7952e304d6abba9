"""Three splits of EMNIST, handwritten digits and letters, read from the official archive of gzipped idx files."""

from collections.abc import Mapping
from functools import partial
from zipfile import ZipFile

import numpy as np

from fedbench.base.errors import UserError
from fedbench.data.base import Arrays, Dataset, register_dataset
from fedbench.data.official import Layout, Official, unzipped
from fedbench.data.readers import Labelled, open_zip, read_idx, unzip

ARCHIVE = "gzip.zip"
URL = f"https://biometrics.nist.gov/cs_links/EMNIST/{ARCHIVE}"
LARGEST = 16 + 240_000 * 28 * 28


def parse(blobs: Mapping[str, bytes], split: str) -> Arrays:
    """Parse one split of the archive. Its images are stored column by column; the labels of letters start at 1."""
    with open_zip(blobs[ARCHIVE], ARCHIVE) as archive:
        return Arrays(*_part(archive, split, "train"), *_part(archive, split, "test"))


def _part(archive: ZipFile, split: str, part: str) -> Labelled:
    """The images [N, 28, 28, 1] and labels [N], from 0, of the training or the test set."""
    first = 1 if split == "letters" else 0
    names = [f"gzip/emnist-{split}-{part}-{kind}-ubyte.gz" for kind in ("images-idx3", "labels-idx1")]
    images, labels = (read_idx(_content(archive, name), name) for name in names)
    if images.ndim != 3 or labels.min(initial=first) < first:
        raise UserError(f"{names[1]}: not as in EMNIST's split {split}, whose labels start at {first}")
    return np.ascontiguousarray(images.transpose(0, 2, 1))[..., None], labels.astype(np.int64) - first


def _content(archive: ZipFile, name: str) -> bytes:
    try:
        return unzipped(unzip(archive, name, LARGEST), LARGEST)
    except (OSError, EOFError) as error:
        raise UserError(f"{name}: cannot be unpacked ({error})") from error


def layout(split: str) -> Layout:
    """The layout of a split: the archive of all splits, whose md5 is torchvision's."""
    return Layout(
        folders=("emnist", "EMNIST/raw"),
        files={ARCHIVE: ("58c8d27c78d21e728a6bc7b3cc06412e",)},
        read=partial(parse, split=split),
        largest=600 * 10**6,
    )


for _split, _classes, _train, _test in (
    ("balanced", 47, 112_800, 18_800),
    ("digits", 10, 240_000, 40_000),
    ("letters", 26, 124_800, 20_800),
):
    register_dataset(
        Dataset(
            name=f"emnist_{_split}",
            shape=(1, 28, 28),
            num_classes=_classes,
            train_size=_train,
            test_size=_test,
            load=Official(f"emnist_{_split}", [layout(_split)], urls=[URL]),
            defaults={"model": "mlp"},
        )
    )
