"""SVHN, house numbers cropped to single digits, read from its official MATLAB files."""

from collections.abc import Mapping

from fedbench.data.base import Arrays, Dataset, register_dataset
from fedbench.data.official import Layout, Official
from fedbench.data.readers import read_cropped_digits

TRAIN, TEST = "train_32x32.mat", "test_32x32.mat"
URL = "http://ufldl.stanford.edu/housenumbers/"


def parse(blobs: Mapping[str, bytes]) -> Arrays:
    """Parse the training and the test set; the 531,131 easier `extra` digits are not used."""
    train, test = (read_cropped_digits(blobs[name], name) for name in (TRAIN, TEST))
    return Arrays(*train, *test)


LAYOUT = Layout(
    folders=("svhn", "SVHN", "."),
    files={TRAIN: ("e26dedcc434d2e4c54c9b2d4a06d8373",), TEST: ("eb5a983be6a315427106f1b164d9cef3",)},  # torchvision's
    read=parse,
)


register_dataset(
    Dataset(
        name="svhn",
        shape=(3, 32, 32),
        num_classes=10,
        train_size=73_257,
        test_size=26_032,
        load=Official("svhn", [LAYOUT], urls=[URL + TRAIN, URL + TEST]),
        mean=0.5,
        std=0.5,
        defaults={"model": "simple_cnn", "method.lr": 0.01},
    )
)
