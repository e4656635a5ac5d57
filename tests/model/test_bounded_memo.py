"""What was made of alike documents is made once, and never mistaken for that of another."""

from __future__ import annotations

from typing import Any

from hyperslab.model.bounded_memo import BoundedMemo


def test_each_document_once() -> None:
    asked: list[Any] = []

    def function(doc: Any, number: int) -> str:
        asked.append(doc)
        return f"{doc!r} {number}"

    recent = BoundedMemo(function)
    alike = [{"a": 1}, {"a": 1.0}, {"a": True}, {"a": "1"}, {"a": None}, {"a": float("nan")}, {"a": "x" * 20_000}]
    for _ in range(3):
        assert [recent(dict(doc), 2) for doc in alike] == [f"{doc!r} 2" for doc in alike]
    assert len(asked) == len(alike) + 2  # the long one is not kept
    assert recent({"a": 1}, 3) == "{'a': 1} 3"


def test_few_are_kept() -> None:
    recent = BoundedMemo(lambda number: number + 1)
    assert [recent(number) for number in range(1000)] == list(range(1, 1001))
    assert len(recent._results) <= 64
