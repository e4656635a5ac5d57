"""What an HDF5 file may lead to: nothing outside itself, and no group within itself.

The netCDF library follows every link when it opens a file: out of the dataset, and round a circle until the memory is
used up. So the links are looked at first, without following them.
"""

from __future__ import annotations

from typing import Any

from hyperslab.errors import FormatError, Unsupported

_MOST_GROUPS = 100_000


def check_links(file: Any, url: str) -> list[str]:
    """The paths of the types that are committed in this h5py file, group by group, in the order of the file.

    Unsupported for a link out of the file; FormatError for a group that lies below itself.
    """
    from h5py import h5g, h5o

    types: list[str] = []
    stack = [("", file.id, _groups_in(file.id, "", url, types))]
    way = [h5g.get_objinfo(file.id).objno]
    seen = 1
    while stack:
        path, group, names = stack[-1]
        if not names:
            stack.pop()
            way.pop()
            continue
        name, address = names.pop()
        inner = f"{path}/{name.decode(errors='replace')}".lstrip("/")
        seen += 1
        if address in way or seen > _MOST_GROUPS:
            message = "this group lies below itself" if address in way else f"more than {_MOST_GROUPS} groups"
            raise FormatError(message, url=url, node=inner, remedy="remove the link that leads to it")
        opened = h5o.open(group, name)
        stack.append((inner, opened, _groups_in(opened, inner, url, types)))
        way.append(address)
    return types


def _groups_in(group: Any, path: str, url: str, types: list[str]) -> list[tuple[bytes, tuple[int, int]]]:
    """Name and address of each group right below a group; ``types`` takes the paths of the types there."""
    from h5py import h5g, h5l

    links: list[tuple[bytes, tuple[int, int]]] = []

    def note(name: bytes, info: Any) -> None:
        links.append((name, info.type))

    group.links.iterate(note, info=True)
    found = []
    named = []
    for name, kind in links:
        if kind not in (h5l.TYPE_HARD, h5l.TYPE_SOFT):
            inner = f"{path}/{name.decode(errors='replace')}".lstrip("/")
            remedy = "put what it leads to in its place: a dataset is confined to its own file"
            raise Unsupported("a link leads to another file", url=url, node=inner, remedy=remedy)
        try:
            told = h5g.get_objinfo(group, name)  # h5o.get_info would read every map of chunks
        except (KeyError, RuntimeError):
            if kind == h5l.TYPE_HARD:
                raise
            continue  # a link to nowhere, which the library will name
        if told.type == h5g.GROUP:
            found.append((name, told.objno))
        elif told.type == h5g.TYPE:
            named.append(name.decode(errors="replace"))
    types += _in_order(group, path, named)
    return found


def _in_order(group: Any, path: str, names: list[str]) -> list[str]:
    """The paths of some members of a group, in the order in which they were made where the file tells it."""
    from h5py import Group, h5g

    if len(names) > 1:
        handle = group if isinstance(group, h5g.GroupID) else h5g.open(group, b"/")
        names = [name for name in Group(handle) if name in names]
    return [f"{path}/{name}".lstrip("/") for name in names]


def lies_elsewhere(dataset: Any) -> str | None:
    """Why the cells of an h5py dataset cannot be given: they lie in other files."""
    from h5py import h5d

    plist = dataset.id.get_create_plist()
    if plist.get_external_count():
        return "the cells lie in another file (HDF5 external storage)"
    if plist.get_layout() != h5d.VIRTUAL:
        return None
    sources = {plist.get_virtual_filename(i) for i in range(plist.get_virtual_count())}
    return "the cells lie in other files (an HDF5 virtual dataset)" if sources - {"."} else None
