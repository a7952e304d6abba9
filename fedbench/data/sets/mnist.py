"""MNIST in full, read from its official idx files."""

from fedbench.data.base import Dataset, register_dataset
from fedbench.data.official import Layout, Official
from fedbench.data.readers import read_mnist

LAYOUT = Layout(
    folders=("mnist", "MNIST/raw"),
    # md5 of the .gz files, as in torchvision, and of their content, on which several public readers agree
    files={
        "train-images-idx3-ubyte": ("f68b3c2dcbeaaa9fbdd348bbdeb94873", "6bbc9ace898e44ae57da46a324031adb"),
        "train-labels-idx1-ubyte": ("d53e105ee54ea40749a09fcbcd1e9432", "a25bea736e30d166cdddb491f175f624"),
        "t10k-images-idx3-ubyte": ("9fb629c4189551a2d022fa330f9573f3", "2646ac647ad5339dbf082846283269ea"),
        "t10k-labels-idx1-ubyte": ("ec29112dd5afa0611ce80d1b7f02629c", "27ae3e4e09519cfbb04c329615203637"),
    },
    read=read_mnist,
    largest=16 + 60_000 * 28 * 28,
)


register_dataset(
    Dataset(
        name="mnist",
        shape=(1, 28, 28),
        num_classes=10,
        train_size=60_000,
        test_size=10_000,
        load=Official("mnist", [LAYOUT], "MNIST"),
        defaults={"model": "mlp"},
    )
)
