"""Durable mail between agents: one append-only log, and readers with cursors.

Promises: what was acknowledged is on disk and in the chain; reading never consumes; a receipt says
only what is true. This room knows nothing of doors; the app hands it the names of agents.
"""
