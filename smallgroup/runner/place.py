"""Names in the folder of a run."""

METRICS, CHECKPOINTS, RESULT = "metrics.jsonl", "checkpoints", "result.json"
FACTS, TIMES = "facts.json", "times.jsonl"
