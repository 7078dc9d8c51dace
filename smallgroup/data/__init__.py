"""Images for a search: sources, splits, augmentation, batches; all of it a function of the seed."""

from typing import TYPE_CHECKING

from smallgroup.registry import Registry
from smallgroup.runtime.lazy import lazy_names

if TYPE_CHECKING:
    from smallgroup.data.augment import Augmentation
    from smallgroup.data.config import AugmentationConfig, DataConfig
    from smallgroup.data.dataset import Dataset, Proportions
    from smallgroup.data.doctor import Finding, examine
    from smallgroup.data.errors import DataError
    from smallgroup.data.images import FileImages, Images, TensorImages
    from smallgroup.data.loader import Reader, Stream, ordered
    from smallgroup.data.own import OwnData
    from smallgroup.data.roots import data_root
    from smallgroup.data.search_data import SearchData, open_search_data
    from smallgroup.data.source import Source
    from smallgroup.data.sources import open_dataset, open_unlabeled
    from smallgroup.data.splits import Splits, split
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "augment": ["Augmentation"],
            "config": ["AugmentationConfig", "DataConfig"],
            "dataset": ["Dataset", "Proportions"],
            "doctor": ["Finding", "examine"],
            "errors": ["DataError"],
            "images": ["FileImages", "Images", "TensorImages"],
            "loader": ["Reader", "Stream", "ordered"],
            "own": ["OwnData"],
            "roots": ["data_root"],
            "search_data": ["SearchData", "open_search_data"],
            "source": ["Source"],
            "sources": ["open_dataset", "open_unlabeled"],
            "splits": ["Splits", "split"],
        },
    )

DATASETS: "Registry[Source]" = Registry(
    "dataset",
    "smallgroup.datasets",
    "smallgroup.data.source:Source",
    {
        "digits": "smallgroup.data.built_in:Digits",
        "cifar10": "smallgroup.data.built_in:Cifar10",
        "cifar100": "smallgroup.data.built_in:Cifar100",
        "imagenet": "smallgroup.data.built_in:ImageNet",
        "folder": "smallgroup.data.built_in:Folder",
        "hf": "smallgroup.data.hub:Hub",
        "own": "smallgroup.data.built_in:Own",
    },
)
"""Datasets by name: the built-in ones, those of installed packages, and those of plugins."""
register = DATASETS.register
"""The decorator that registers a dataset of your own under its `name`."""

__all__ = [
    "DATASETS",
    "Augmentation",
    "AugmentationConfig",
    "DataConfig",
    "DataError",
    "Dataset",
    "FileImages",
    "Finding",
    "Images",
    "OwnData",
    "Proportions",
    "Reader",
    "SearchData",
    "Source",
    "Splits",
    "Stream",
    "TensorImages",
    "data_root",
    "examine",
    "open_dataset",
    "open_search_data",
    "open_unlabeled",
    "ordered",
    "register",
    "split",
]
