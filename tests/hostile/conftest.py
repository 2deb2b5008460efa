"""Hostile SMTP peers meet the door on asyncio's loop and on uvloop, which the daemon runs on."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
import uvloop


def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item) -> dict[str, Callable[[], Any]]:
    both = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
    return both if item.path.name.startswith("test_smtp_") else {"asyncio": asyncio.new_event_loop}
