"""Revisions, oldest first: `NNNN_what_changes.py`."""
