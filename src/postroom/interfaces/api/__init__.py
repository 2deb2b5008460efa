"""`/api`: postroom's own JSON for the command line and the console: agents, outgoing mail, sessions, audit, health.

Translate in, call one verb, translate out. Who may do what is the verbs' business; errors are told
by the surface. Moments leave as RFC 3339 in UTC.
"""
