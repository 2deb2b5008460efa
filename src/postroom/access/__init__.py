"""Who may knock: agents, keys and tokens.

This room makes a `Principal` from a credential and nothing more: what a principal may do is judged
by pure functions in `model.principal`. Promise: a secret is stored as a hash only, and a revoked
key stops working with the commit that revoked it.
"""
