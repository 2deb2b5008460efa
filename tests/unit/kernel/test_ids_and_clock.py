"""Ids sort by time and moments keep their microseconds."""

import re

import pytest

from postroom import ids
from postroom.clock import SystemClock, from_iso, to_iso


def test_our_ids_are_prefixed_uuid7():
    made = ids.new_id(ids.OUTGOING)
    assert re.fullmatch(r"out_[0-9a-f]{12}7[0-9a-f]{3}[89ab][0-9a-f]{15}", made)


def test_uuid7_sorts_by_time(monkeypatch: pytest.MonkeyPatch):
    moments = iter([1_700_000_000_000_000_000, 1_700_000_000_001_000_000])
    monkeypatch.setattr(ids.time, "time_ns", lambda: next(moments))
    first, second = ids.uuid7(), ids.uuid7()
    assert first < second


def test_message_ids_need_no_escaping_in_a_path():
    assert re.fullmatch(r"<[0-9a-f]{32}@postroom\.localhost>", ids.new_message_id("postroom.localhost"))


def test_moments_are_written_as_the_contract_writes_them():
    assert to_iso(1_764_612_000_123_456) == "2025-12-01T18:00:00.123Z"
    assert from_iso("2025-12-01T18:00:00.123456Z") == 1_764_612_000_123_456
    assert from_iso("2025-12-01T20:00:00+02:00") == 1_764_612_000_000_000
    with pytest.raises(ValueError, match="needs an offset"):
        from_iso("2025-12-01T18:00:00")
    assert SystemClock().now_us() > 1_764_612_000_000_000
