"""Progress of runs on terminals, in notebooks and as lines; the command and the Python functions share it."""
