"""Loaded by every Python that a test starts."""

import egress_watch

egress_watch.watch()
