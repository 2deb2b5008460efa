"""The nouns, frozen and without I/O, and the Protocols where rooms meet.

Nothing here opens a file, a socket or a clock. Rooms import the submodule they need.
"""
