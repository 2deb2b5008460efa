"""A person's patch file: what `connect` puts in, it takes out again, to the byte."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.cli.connect.dsh import block, put_in, taken_out
from postroom.errors import Invalid

TEMPLATE = "# Your patch layer for this dsh profile:\n# a top-level YAML array\n[]\n"


@pytest.fixture
def rows(tmp_path):
    return block("http://127.0.0.1:4470", tmp_path / "token")


def test_the_templates_empty_list_gives_way_and_comes_back(rows):
    put = put_in(TEMPLATE, rows)
    assert "\n[]\n" not in put
    assert put.count("- insert:") == 1
    assert taken_out(put) == TEMPLATE


def test_a_persons_rows_comments_and_tags_stay_and_a_second_time_changes_nothing(rows):
    own = "# mine\n- id: bash\n  config: !!js process.env.X  # keep\n"
    put = put_in(own, rows)
    assert put.startswith(own)
    assert put_in(put, rows) == put
    assert taken_out(put) == own


@given(
    st.lists(st.sampled_from(["# note", "- id: x", "  disabled: true", "", "- insert: [{id: y, name: z}]", "é\r"]), max_size=6),
    st.booleans(),
)
def test_whatever_a_person_wrote_comes_back_to_the_byte(lines, ends):
    text = "\n".join(lines) + ("\n" if ends else "")
    rows = "# >>> postroom: written by `postroom connect dsh`, taken out by its --remove\n- insert: []\n# <<< postroom\n"
    assert taken_out(put_in(text, rows)) == text


@pytest.mark.parametrize("text", ["[{id: x}]\n", "[]\n- id: x\n", "[ {id: x},\n {id: y}]\n"])
def test_a_file_it_cannot_add_to_safely_is_refused(rows, text):
    with pytest.raises(Invalid):
        put_in(text, rows)


def config_of(text: str) -> dict:
    (line,) = [line for line in text.splitlines() if line.startswith("- insert: ")]
    (row,) = json.loads(line.removeprefix("- insert: "))
    return row["config"]


def test_each_part_can_be_left_out_and_no_token_is_in_the_block(tmp_path):
    (tmp_path / "token").write_text("am_1_secret", encoding="ascii")
    assert config_of(block("http://127.0.0.1:1", tmp_path / "token"))["parts"] == ["tools", "identity", "approval", "inbound"]
    rows = block("http://127.0.0.1:1", tmp_path / "token", {"approval", "tools"})
    assert config_of(rows)["parts"] == ["identity", "inbound"]
    assert "am_1_secret" not in rows


def test_the_block_switches_off_what_the_harness_tells_its_provider_and_says_so(rows):
    off = [line for line in rows.splitlines() if line.endswith("disabled: true}")]
    assert off == [
        "- {id: session-log-deepseek, disabled: true}",
        "- {id: plugin-package-inventory-deepseek, disabled: true}",
        "- {id: session-telemetry-otel, disabled: true}",
    ]
    assert "# Off: the copy of each session that goes to the model's provider, the list of plugins, telemetry." in rows
