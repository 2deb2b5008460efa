"""One construct, two dialects: text compiled once, values bound by name."""

import pytest
from sqlalchemy import Column, Integer, MetaData, Table, Text, bindparam, insert, select, update

from postroom.store.statement import in_list, insert_or_ignore, sql, upsert

thing = Table(
    "thing", MetaData(), Column("id", Integer, primary_key=True), Column("name", Text, unique=True), Column("n", Integer)
)


def flat(text: str) -> str:
    return " ".join(text.split())


def test_a_statement_is_compiled_once_per_dialect() -> None:
    statement = sql(select(thing.c.id))

    assert statement.on("sqlite") is statement.on("sqlite")
    assert statement.on("sqlite") is not statement.on("postgresql")


def test_literals_keep_their_values_and_parameters_are_the_callers() -> None:
    statement = sql(select(thing.c.id).where(thing.c.n > 5, thing.c.name.in_(("a", "b")), thing.c.id == bindparam("id")))
    compiled = statement.on("sqlite")

    assert flat(compiled.text) == (
        "SELECT thing.id FROM thing WHERE thing.n > :n_1 AND thing.name IN (:name_1_1, :name_1_2) AND thing.id = :id"
    )
    assert compiled.bind({"id": 1}) == {"n_1": 5, "name_1_1": "a", "name_1_2": "b", "id": 1}


def test_without_literals_the_parameters_are_handed_on_as_they_are() -> None:
    params = {"name": "a"}

    assert sql(insert(thing).values(name=bindparam("name"))).on("sqlite").bind(params) is params


@pytest.mark.parametrize(
    ("dialect", "elements"),
    [("sqlite", "json_each(:ids)"), ("postgresql", "json_array_elements_text(CAST(%(ids)s::VARCHAR AS json))")],
)
def test_a_list_travels_as_one_parameter(dialect: str, elements: str) -> None:
    compiled = sql(select(thing.c.id).where(thing.c.id.in_(in_list("ids")))).on(dialect)

    assert flat(compiled.text) == (
        f"SELECT thing.id FROM thing WHERE thing.id IN (SELECT anon_1.value FROM {elements} AS anon_1)"
    )
    assert compiled.bind({"ids": (1, 2)}) == {"ids": "[1, 2]"}


@pytest.mark.parametrize("dialect", ["sqlite", "postgresql"])
def test_conflicts_are_settled_by_the_same_words(dialect: str) -> None:
    ignoring = flat(insert_or_ignore(thing, ["name"]).on(dialect).text)
    updating = flat(upsert(thing, ["name", "n"], ["name"], ["n"], where=lambda new: new.n > thing.c.n).on(dialect).text)

    assert "ON CONFLICT DO NOTHING" in ignoring
    assert "ON CONFLICT (name) DO UPDATE SET n = excluded.n WHERE excluded.n > thing.n" in updating


def test_an_update_may_set_and_find_by_parameters() -> None:
    statement = sql(update(thing).values(n=thing.c.n + 1, name=bindparam("name")).where(thing.c.id == bindparam("id")))

    assert flat(statement.on("sqlite").text) == "UPDATE thing SET name=:name, n=(thing.n + :n_1) WHERE thing.id = :id"
