"""Conditions as people type them: where one ends and the next begins, and those of what has no schema."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperslab.database import ArraySchema, AttributeSchema, Client, DimensionSchema
from hyperslab.database.typed_conditions import parse_conditions
from hyperslab.errors import HyperslabError, Invalid
from hyperslab.formats.conditions import join_conditions, split_conditions


@pytest.mark.parametrize(
    ("text", "conditions"),
    [
        ("", []),
        ("  ", []),
        ("depth>=2", ["depth>=2"]),
        (" depth>=2  AND\tname^=n1 ", ["depth>=2", "name^=n1"]),
        ("name=bread and butter", ["name=bread and butter"]),
        ("name=bread  and butter and depth<=3", ["name=bread  and butter", "depth<=3"]),
        ('name:="a and b=c" and depth>=2', ['name:="a and b=c"', "depth>=2"]),
        ('name:="a \\" and b=c" and depth>=2', ['name:="a \\" and b=c"', "depth>=2"]),
        ('place:=["x and y=1", 2] and depth>=2', ['place:=["x and y=1", 2]', "depth>=2"]),
        ('name="a and b=c"', ['name="a and b=c"']),
        ("name='a and b=c' and depth>='2 or a=1'", ["name='a and b=c'", "depth>='2 or a=1'"]),
        ("name='t Hooft and depth=2", ["name='t Hooft", "depth=2"]),
        ('name="a and b=c', ['name="a', "b=c"]),
        ("nonsense and depth>=2", ["nonsense", "depth>=2"]),
        ("depth>=2 or name~=n* OR depth!=1", ["depth>=2", "or", "name~=n*", "or", "depth!=1"]),
        ("name=one or two and depth=1", ["name=one or two", "depth=1"]),
        ("sand=andes and band=1", ["sand=andes", "band=1"]),
        ('name:="never ends and depth>=2', ['name:="never ends and depth>=2']),
    ],
)
def test_conditions_are_told_apart(text: str, conditions: list[str]) -> None:
    assert split_conditions(text) == conditions


@pytest.mark.parametrize(
    ("texts", "conditions"),
    [
        (["a=1", "b>=2"], ["a=1", "b>=2"]),
        (["a=1", "and", "b>=2", "or", "a=3"], ["a=1", "b>=2", "or", "a=3"]),
        (["a=1 and b>=2", "c=3"], ["a=1", "b>=2", "c=3"]),
        (["a=1 and b>=2 or a=3"], ["a=1", "b>=2", "or", "a=3"]),
        (["a=1 and b>=2", "OR", "a=3"], ["a=1", "b>=2", "OR", "a=3"]),
        (["nonsense"], ["nonsense"]),
    ],
)
def test_conditions_of_several_texts_are_joined(texts: list[str], conditions: list[str]) -> None:
    assert join_conditions(texts) == conditions


@pytest.mark.parametrize(
    "texts", [["a=1 or b=2", "c=3"], ["and"], ["a=1", "and"], ["and", "a=1"], ["a=1", "and", "or"]]
)
def test_conditions_that_may_mean_two_things_are_refused(texts: list[str]) -> None:
    with pytest.raises(Invalid, match=r"beside another|both sides"):
        join_conditions(texts)


@given(st.lists(st.text(), min_size=1, max_size=4))
def test_any_text_can_be_a_value(values: list[str]) -> None:
    conditions = [f"name:={json.dumps(value)}" for value in values]
    assert split_conditions(" and ".join(conditions)) == conditions


def test_values_in_quotes(tmp_path: Path) -> None:
    attributes = [AttributeSchema("name", str, True), AttributeSchema("depth", float, False)]
    with Client(f"file://{tmp_path}/store", durable=False) as store:
        runs = store.create_collection("runs", ArraySchema([DimensionSchema("x", 1)], float, attributes))
        for name in ("x=y and z=1", "a b", "=b", "'t Hooft", '"quoted"'):
            runs.create({"name": name}, {"depth": 1.0})

        def names(text: str) -> list[str]:
            wanted = parse_conditions(runs, split_conditions(text))
            return [each.primary_attributes["name"] for each in runs.query(wanted)]

        assert names('name="x=y and z=1" and depth="1"') == ["x=y and z=1"]
        assert names("name='a b' or name=\"=b\"") == ["=b", "a b"]
        assert names("name^='x=y and z' and depth>='1'") == ["x=y and z=1"]
        assert names("name='t Hooft and depth=1") == ["'t Hooft"]
        assert names(r'name:="\"quoted\""') == ['"quoted"']


def test_conditions_of_one_attribute(tmp_path: Path) -> None:
    attributes = [AttributeSchema("name", str, True), AttributeSchema("depth", float, False)]
    with Client(f"file://{tmp_path}/store", durable=False) as store:
        runs = store.create_collection("runs", ArraySchema([DimensionSchema("x", 1)], float, attributes))
        for number in range(5):
            runs.create({"name": f"n{number}"}, {"depth": float(number)})
        found = runs.query(parse_conditions(runs, ["depth>=1", "name=n2", "depth<=3", "name=n3", "name=n4"]))
        assert [each.primary_attributes["name"] for each in found] == ["n2", "n3"]
        # all of them hold: none may take the place of another one
        for texts in (["depth>=3", "depth>=1"], ["depth<=1", "depth>=0", "depth<=3"], ["name^=n", "name^=n3"]):
            with pytest.raises(Invalid, match="two conditions"):
                parse_conditions(runs, texts)


def test_unequal_patterns_and_alternatives(tmp_path: Path) -> None:
    attributes = [AttributeSchema("name", str, True), AttributeSchema("depth", float, False)]
    with Client(f"file://{tmp_path}/store", durable=False) as store:
        runs = store.create_collection("runs", ArraySchema([DimensionSchema("x", 1)], float, attributes))
        for number in range(5):
            runs.create({"name": f"n{number}"}, {"depth": float(number) if number else None})

        def names(*texts: str) -> list[str]:
            return [each.primary_attributes["name"] for each in runs.query(parse_conditions(runs, texts))]

        assert names("name!=n1") == ["n0", "n2", "n3", "n4"]
        assert names("name!=n1", "name!=n3", "depth!=null") == ["n2", "n4"]
        assert names("depth!=2") == ["n0", "n1", "n3", "n4"]
        assert names("name~=?[0-2]", "depth>=1") == ["n1", "n2"]
        assert names("depth>=4", "or", "name=n1", "OR", "depth=null") == ["n0", "n1", "n4"]
        assert names("depth>=2", "depth<=3", "or", "name~=*1") == ["n1", "n2", "n3"]
        for texts in (["or"], ["depth=1", "or"], ["or", "depth=1"], ["depth=1", "or", "or", "depth=2"]):
            with pytest.raises(Invalid, match="both sides"):
                parse_conditions(runs, texts)
        for texts in (["name~=a", "name~=b"], ["depth!=1", "depth>=1"], ["depth~=1"]):
            with pytest.raises(HyperslabError):
                names(*texts)
