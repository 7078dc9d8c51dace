"""Images for a search: sources, splits, augmentation, batches; all of it a function of the seed."""

from typing import TYPE_CHECKING

from smallgroup.runtime.lazy import lazy_names

if TYPE_CHECKING:
    from smallgroup.data.augment import Augmentation
    from smallgroup.data.config import AugmentationConfig, DataConfig
    from smallgroup.data.dataset import Dataset, Proportions
    from smallgroup.data.doctor import Finding, examine
    from smallgroup.data.errors import DataError
    from smallgroup.data.images import FileImages, Images, TensorImages
    from smallgroup.data.loader import Reader, Stream, ordered
    from smallgroup.data.names import NAMES
    from smallgroup.data.roots import data_root
    from smallgroup.data.search_data import SearchData, open_search_data
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
            "names": ["NAMES"],
            "roots": ["data_root"],
            "search_data": ["SearchData", "open_search_data"],
            "sources": ["open_dataset", "open_unlabeled"],
            "splits": ["Splits", "split"],
        },
    )

__all__ = [
    "NAMES",
    "Augmentation",
    "AugmentationConfig",
    "DataConfig",
    "DataError",
    "Dataset",
    "FileImages",
    "Finding",
    "Images",
    "Proportions",
    "Reader",
    "SearchData",
    "Splits",
    "Stream",
    "TensorImages",
    "data_root",
    "examine",
    "open_dataset",
    "open_search_data",
    "open_unlabeled",
    "ordered",
    "split",
]
