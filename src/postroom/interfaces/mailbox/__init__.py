"""`/mailbox/…`: the mailbox as plain JSON over HTTP, for programs, shells and curl. One verb per path."""
