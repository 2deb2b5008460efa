"""Sessions: which agent session is told what, when, and that it is told at least once.

A session is a function of a thread (`prefix` + thread id). What it has not taken lies after its
cursor in the event log; crash, duplicate, order and restart need nothing else.
"""
