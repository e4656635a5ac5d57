"""The path of each node by its ``object_id``: how the target of a link is found that was moved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hyperslab.errors import HyperslabError
from hyperslab.formats.keyed_dataset import KeyedReader
from hyperslab.model.paths import child
from hyperslab.model.spec import ArraySpec, GroupSpec

ID = "object_id"


def id_of(spec: GroupSpec | ArraySpec) -> str | None:
    """What a node calls itself; None where it does not."""
    said = spec.attrs.get(ID)
    return said if isinstance(said, str) and said else None


def paths_by_id(documents: KeyedReader, passed: str | None) -> Mapping[str, list[str]]:
    """Return the paths of all nodes that can be read but for those below ``passed`` (the specifications), by what they
    call themselves; most often one each."""
    found: dict[str, list[str]] = {}
    for path, spec in _nodes(documents, passed):
        if (said := id_of(spec)) is not None:
            found.setdefault(said, []).append(path)
    return found


def _nodes(documents: KeyedReader, passed: str | None) -> Iterator[tuple[str, GroupSpec | ArraySpec]]:
    """Each group before what is in it, however deep they lie in one another."""
    waiting = [""]
    while waiting:
        path = waiting.pop()
        try:
            spec = documents.node(path)
            names = list(documents.children(path)) if isinstance(spec, GroupSpec) else []
        except HyperslabError:
            continue
        yield path, spec
        waiting += [below for name in reversed(names) if (below := child(path, name)) != passed]
