"""Fashion-MNIST, read from its official idx files."""

from pathlib import Path

from fedbench.data.base import Dataset, register_dataset
from fedbench.data.official import Layout, Official
from fedbench.data.readers import read_mnist

DEBIAN = Path("/usr/share/datasets")


LAYOUT = Layout(
    folders=("fashion-mnist", "FashionMNIST/raw", "fashion_mnist", "."),
    files={  # md5 of the published .gz file and of its content, because distributions compress it again
        "train-images-idx3-ubyte": ("8d4fb7e6c68d591d4c3dfef9ec88bf0d", "f4a8712d7a061bf5bd6d2ca38dc4d50a"),
        "train-labels-idx1-ubyte": ("25c81989df183df01b3e8a0aad5dffbe", "9018921c3c673c538a1fc5bad174d6f9"),
        "t10k-images-idx3-ubyte": ("bef4ecab320f06d8554ea6380940ec79", "8181f5470baa50b63fa0f6fddb340f0a"),
        "t10k-labels-idx1-ubyte": ("bb300cfdad3c16e7a12a480ee83cd310", "15d484375f8d13e6eb1aabb0c3f46965"),
    },
    read=read_mnist,
    largest=16 + 60_000 * 28 * 28,
)


register_dataset(
    Dataset(
        name="fashion_mnist",
        shape=(1, 28, 28),
        num_classes=10,
        train_size=60_000,
        test_size=10_000,
        load=Official("fashion_mnist", [LAYOUT], "FashionMNIST", system=[DEBIAN]),
        defaults={"model": "mlp"},
    )
)
