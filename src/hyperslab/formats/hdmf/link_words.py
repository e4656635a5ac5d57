"""Links as a group's document has them: a list of objects with a name each (``zarr_link``, ``_LINKS``). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from hyperslab.errors import Invalid
from hyperslab.formats.faults import Faults, brief
from hyperslab.model.paths import check_name
from hyperslab.model.refs import Link

_KEYS = ("name", "source", "path", "object_id", "source_object_id")


def read_links(said: Any, word: str, faults: Faults) -> tuple[dict[str, Link], list[Any]]:
    """The links by name, and the entries that are none: they are kept as they stand."""
    if not isinstance(said, list):
        faults.note("links", f"{word} is {brief(said)}, not a list of links")
        return {}, [said]
    links: dict[str, Link] = {}
    others = []
    for entry in said:
        reason = _fault(entry, links)
        if reason is None:
            links[entry["name"]] = _read_link(entry)
        else:
            others.append(entry)
            faults.note("links", f"{word}: {brief(entry)} is no link: {reason}")
    return links, others


def _fault(entry: Any, links: Mapping[str, Link]) -> str | None:
    if not isinstance(entry, dict):
        return "it is not an object"
    if missing := [key for key in _KEYS[:3] if not isinstance(entry.get(key), str)]:
        return f"it has no text {missing[0]!r}"
    if not all(isinstance(entry.get(key), str | None) for key in _KEYS[3:]):
        return "an object_id is no text"
    try:
        check_name(entry["name"])
    except Invalid as error:
        return error.message
    return "another link has this name" if entry["name"] in links else None


def _read_link(entry: Mapping[str, Any]) -> Link:
    path = entry["path"]
    return Link(
        target=path if path.startswith("/") else f"/{path}",
        source=entry["source"] or ".",
        object_id=entry.get("object_id"),
        source_object_id=entry.get("source_object_id"),
        layout={key: value for key, value in entry.items() if key not in _KEYS},
    )


def write_links(links: Mapping[str, Link], others: Iterable[Any], profile: Literal["v2", "v3"]) -> list[Any]:
    """The list of a document. Profile v2 names the two object ids always, v3 where they are known."""
    return [*(_write_link(name, link, profile) for name, link in links.items()), *others]


def _write_link(name: str, link: Link, profile: str) -> dict[str, Any]:
    check_name(name)
    ids = {"object_id": link.object_id, "source_object_id": link.source_object_id}
    if profile == "v3":
        ids = {key: value for key, value in ids.items() if value is not None}
    return {"name": name, "source": link.source, "path": link.target, **ids, **link.layout}
