"""CIFAR-10 and CIFAR-100 in their official binary and python formats."""

from collections.abc import Callable, Mapping

import numpy as np

from fedbench.data.base import Arrays, Dataset, register_dataset
from fedbench.data.official import Layout, Official
from fedbench.data.readers import Labelled, read_cifar_binary, read_cifar_python

Reader = Callable[[bytes, str], Labelled]


def parser(reader: Reader) -> Callable[[Mapping[str, bytes]], Arrays]:
    """A parser of a whole data set: the file whose name starts with `test` is the test set, the others are joined."""

    def parse(blobs: Mapping[str, bytes]) -> Arrays:
        parts = {name: reader(blob, name) for name, blob in blobs.items()}
        train = [part for name, part in parts.items() if not name.startswith("test")]
        (test,) = (part for name, part in parts.items() if name.startswith("test"))
        images, labels = (np.concatenate(arrays) for arrays in zip(*train, strict=True))
        return Arrays(images, labels, *test)

    return parse


CIFAR10 = (
    Layout(
        folders=("cifar-10-batches-bin", "cifar10/cifar-10-batches-bin"),
        files={
            "data_batch_1.bin": ("5dd7e06a14cb22eb9f671a540d1b7c25",),
            "data_batch_2.bin": ("5ea93a67294ea407fff1d09f752e9692",),
            "data_batch_3.bin": ("942cd6a4bcdd0dd3c604fbe906cb4421",),
            "data_batch_4.bin": ("ae636b3ba5c66a11e91e8cb52e771fcb",),
            "data_batch_5.bin": ("53f37980c15c3d472c316c40844f3f0d",),
            "test_batch.bin": ("803d5f7f4d78ea53de84dbe85f74fb6d",),
        },
        read=parser(lambda blob, name: read_cifar_binary(blob, name, label_bytes=1)),
        largest=10_000 * 3073,
    ),
    Layout(
        folders=("cifar-10-batches-py", "cifar10/cifar-10-batches-py"),
        files={
            "data_batch_1": ("c99cafc152244af753f735de768cd75f",),
            "data_batch_2": ("d4bba439e000b95fd0a9bffe97cbabec",),
            "data_batch_3": ("54ebc095f3ab1f0389bbae665268c751",),
            "data_batch_4": ("634d18415352ddfa80567beed471001a",),
            "data_batch_5": ("482c414d41f54cd18b22e5b47cb7c3cb",),
            "test_batch": ("40351d587109b95175f43aff81a1287e",),
        },
        read=parser(lambda blob, name: read_cifar_python(blob, name, label_key="labels")),
        largest=32 * 10**6,
    ),
)

CIFAR100 = (
    Layout(
        folders=("cifar-100-python", "cifar100/cifar-100-python"),
        files={
            "train": ("16019d7e3df5f24257cddd939b257f8d",),
            "test": ("f0ef6b0ae62326f3e7ffdfab6717acfc",),
        },
        read=parser(lambda blob, name: read_cifar_python(blob, name, label_key="fine_labels")),
        largest=160 * 10**6,
    ),
    Layout(  # no checksums of the single files are published, so only their structure is checked
        folders=("cifar-100-binary", "cifar100/cifar-100-binary"),
        files={"train.bin": (), "test.bin": ()},
        read=parser(lambda blob, name: read_cifar_binary(blob, name, label_bytes=2)),
        largest=50_000 * 3074,
    ),
)


for _name, _classes, _layouts, _defaults in (
    ("cifar10", 10, CIFAR10, {"method.lr": 0.01}),
    ("cifar100", 100, CIFAR100, {"clients.lr": 0.01, "clients.weight_decay": 5e-5}),
):
    register_dataset(
        Dataset(
            name=_name,
            shape=(3, 32, 32),
            num_classes=_classes,
            train_size=50_000,
            test_size=10_000,
            load=Official(_name, _layouts, _name.upper()),
            mean=0.5,
            std=0.5,
            defaults={"model": "simple_cnn", **_defaults},
        )
    )
