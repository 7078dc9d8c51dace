"""What holds for the whole suite."""

import torch

# The networks of the tests are tiny: on two threads they mostly wait for one another.
torch.set_num_threads(1)
