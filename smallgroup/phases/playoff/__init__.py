"""The play-off between candidate cells: short trainings from scratch, compared on the validation part."""
