"""The paper's two phases: search, evaluation."""
