"""The spelling of each member of a document, also where the document is damaged."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperslab.formats.nczarr.attributes import source_texts

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), JSON), st.sampled_from([None, 1]), st.booleans())
def test_every_member_is_spelled_as_in_the_document(document, indent, ascii_only):
    data = json.dumps(document, indent=indent, ensure_ascii=ascii_only).encode()
    assert {name: json.loads(text) for name, text in source_texts(data).items()} == document


@pytest.mark.parametrize(
    ("document", "texts"),
    [
        ('{"a": 1.0, "b": [0.,0.,1.], "c": .5}', {"a": "1.0", "b": "[0.,0.,1.]", "c": ".5"}),
        ('{"a": NaN, "b": -Infinity}', {"a": "NaN", "b": "-Infinity"}),
        ('\ufeff{"a": 1}', {"a": "1"}),
        ('{"a": 1}}J0"}}}', {"a": "1"}),
        ('{"a": {"b": "}", "c": [1, 2]}, "d": "\\"{"}', {"a": '{"b": "}", "c": [1, 2]}', "d": '"\\"{"'}),
        ('{"a": 1, "a": 2}', {"a": "2"}),
        ('{"a": [1, 2', {}),
        ('{"a": "unclosed', {}),
        ("[1, 2]", {}),
        ("", {}),
        ("null", {}),
        ('{"a": 123456789012345678901234567890}', {"a": "123456789012345678901234567890"}),
        ("{1: 2, a: 3}", {}),
        ('{"a\\u00e9": 1, "é": 2}', {"aé": "1", "é": "2"}),
    ],
)
def test_damaged_documents_give_what_they_have(document, texts):
    assert source_texts(document.encode()) == texts


def test_bytes_that_are_no_text_do_no_harm():
    assert source_texts(b'{"a": 1, "b": \xff}')["a"] == "1"
