"""Feed every reader of foreign files and texts with untrusted input, and see that it is read or refused.

    python -m tests.tools.fuzz --inputs 100000

Inputs are drawn by hypothesis (which has to be installed): sound ones that were damaged a little or a lot, hostile ones
out of a list, and noise. A reader may accept an input, or refuse it by the error that it says it raises, with a message
of moderate length. All else is a defect: another error, code that runs, more than a few seconds, a lot of memory.
"""

from tests.tools.fuzz.guard import Tally, fuzz
from tests.tools.fuzz.readers import READERS, Reader

__all__ = ["READERS", "Reader", "Tally", "fuzz"]
