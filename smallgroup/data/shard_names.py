"""The name by which a folder of shards is known; read without torch."""

MANIFEST = "shards.json"
