"""`postroom connect`: give a harness or client the mail of one agent, and take it away again.

One module for each harness or client; `commands` has the command line. What they write, `--remove` takes out
to the byte.
"""
