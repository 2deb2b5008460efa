"""The one HTTP origin: the server, the checks every request passes, the error table, downloads.

What the paths mean is the business of the applications mounted here. Promise: nothing but health,
cards, the descriptor and signed downloads answers without a token; no page of another origin and no
rebound host name gets through; no request ends in a stack trace.
"""
