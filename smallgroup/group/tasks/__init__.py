"""The built-in tasks. Each is a small class on the protocol that a task of your own is written on."""

from smallgroup.group.tasks.classification import Classification
from smallgroup.group.tasks.dense import DenseClassification
from smallgroup.group.tasks.multi_label import MultiLabel
from smallgroup.group.tasks.regression import GaussianRegression, Regression

__all__ = ["Classification", "DenseClassification", "GaussianRegression", "MultiLabel", "Regression"]
