"""The `postroom` command. Data goes to stdout, talk to stderr; exit codes are one table (`exits`).

Plumbing (`mcp`, `hook`, `wait`, …) loads the standard library only, so `main` looks at the
arguments before anything is imported.
"""
