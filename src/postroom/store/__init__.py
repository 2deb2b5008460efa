"""The store: one engine under every room (write/read, events, leases, blobs, search, migrations).

Tables and queries live with the job that owns them; here is what they run on. `engine.Store` is
the door. Promise: what `write` returned from is on disk, and nothing is heard of before it is.
"""
