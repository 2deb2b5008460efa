"""A person's mail, strictly read-only.

One verb for agents over the accounts a person names, one Protocol behind it with exactly `list` and
`read`. Nothing here can send, move, mark or delete: no such request is written down anywhere in this
room. Where requests may go is one table (`endpoints`), which no setting reaches. What a sender wrote
is data: it leaves this room cleaned and bounded, and is fenced where it is shown.
"""
