"""Plant attacks in every text of run and study folders, and check everything that commands print and write.

    python -m tests.tools.fuzz.outputs --rounds 200

A real search, training and study are made once, on images whose class and file names are attacks too. Every round
copies them, plants an attack in one text, in several or in all texts of a file (keys included), runs the commands that
read the file, and checks standard output, standard error and every file that the commands wrote: no control character,
no line that an attack began, no live HTML, TeX, Markdown, console markup or spreadsheet formula. A command may refuse
the file.
"""

from tests.tools.fuzz.outputs.attacks import ATTACKS
from tests.tools.fuzz.outputs.attempts import Attempt, Findings, every_attempt, random_attempts, try_outputs
from tests.tools.fuzz.outputs.controls import CONTROLS, without_cleaning
from tests.tools.fuzz.outputs.material import Material, make_material

__all__ = [
    "ATTACKS",
    "CONTROLS",
    "Attempt",
    "Findings",
    "Material",
    "every_attempt",
    "make_material",
    "random_attempts",
    "try_outputs",
    "without_cleaning",
]
