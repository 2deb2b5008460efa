"""Which domains are delivered inside: those of the config, and those added since. One object, shared by the office."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator

from sqlalchemy import select

from postroom.config import Config
from postroom.errors import StorageFailure
from postroom.model.hostname import ascii_domain
from postroom.office import tables as t
from postroom.store.engine import Store
from postroom.store.statement import sql

_ADDED = sql(select(t.domain.c.name).order_by(t.domain.c.id))


class LocalDomains(Collection[str]):
    """The names, as domains are compared, the config's first. Always as they are now."""

    def __init__(self, store: Store, config: Config) -> None:
        self._store = store
        self.fixed = tuple(ascii_domain(domain) or domain.lower() for domain in config.office.domains)
        self.names = self.fixed
        self.refresh()
        store.on_others(self._others_wrote)

    def refresh(self) -> None:
        """Take up what was added or taken away."""
        added = self._store.read_now(lambda reader: [row[0] for row in reader.all(_ADDED)])
        self.names = tuple(dict.fromkeys((*self.fixed, *added)))

    def _others_wrote(self) -> None:
        with contextlib.suppress(StorageFailure):  # then the next commit that is heard of tells
            self.refresh()

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)
