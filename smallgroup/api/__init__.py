"""The jobs, for Python: what the command does, without the command."""

from smallgroup.api.given import on_data, or_begun
from smallgroup.api.mutual import train_mutually
from smallgroup.api.place import check_place
from smallgroup.api.searching import PLAY_OFF, search
from smallgroup.api.training import train

__all__ = ["PLAY_OFF", "check_place", "on_data", "or_begun", "search", "train", "train_mutually"]
