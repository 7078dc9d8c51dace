"""Batches that are left out because a number in them was not finite, counted."""

from dataclasses import dataclass


@dataclass
class Skips:
    """The count of skipped batches, and the most that may be skipped in a row."""

    most: int = 0
    """The most batches in a row; 0: none may be skipped."""
    in_a_row: int = 0
    in_epoch: int = 0

    def leave_out(self, error: FloatingPointError) -> bool:
        """Count a batch; False if it is one too many, and the error says so."""
        if self.in_a_row >= self.most:
            if self.most:
                error.add_note(f"the {self.most} batches before it were skipped, and run.most_skipped allows no more")
            return False
        self.in_a_row, self.in_epoch = self.in_a_row + 1, self.in_epoch + 1
        return True

    def taken(self) -> None:
        """Note that a step was taken: the row of skipped batches has ended."""
        self.in_a_row = 0

    def of_epoch(self) -> dict[str, int]:
        """Return the columns for the rows of an epoch that is over, and start to count the next one."""
        count, self.in_epoch = self.in_epoch, 0
        return {"left_out": count} if count else {}
