"""The paper's two phases: search and training."""
