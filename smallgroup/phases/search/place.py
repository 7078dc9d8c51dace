"""Names in the folder of a search."""

GALLERY = "gallery.json"
"""Images that the learners disagree about."""
