"""Structures of an HDF5 file that are read here before, or beside, the library: links, global heaps and chunk B-trees;
the bytes of a file as h5py reads them.

Links and heaps are checked first, because the libraries do not end, or leave the file, where these are hostile. The
B-trees of a remote file are read by levels, because the library needs a round trip for each node.
(HDF5 File Format Specification, version 3.)
"""

from __future__ import annotations

import errno
import io
import mmap
import os
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hyperslab.errors import FormatError, Unsupported
from hyperslab.formats.format_errors import document_error
from hyperslab.formats.hdf5.types import has_nameless_enum
from hyperslab.model.refs import Link

if TYPE_CHECKING:
    import h5py

HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"
Span = tuple[int, int]
"""First byte of a piece of the file, and the byte behind its last."""

# -- Links -------------------------------------------------------------------------------------------------------------
# The netCDF library follows every link when it opens a file: out of the dataset, and round a circle until the memory
# is used up. So the links are listed here first; those that lead out of the file are never followed.

_MAX_GROUPS = 100_000  # no sound file has as many; a chain of links that never repeats would be followed for ever
_MAX_HOPS = 16  # soft links that lead to one another: what HDF5 itself follows


@dataclass(frozen=True, slots=True)
class LinkSurvey:
    """What the links of a file lead to: the paths of the ``types`` that are committed in it, group by group, in the
    order of the file; and by path those that lead ``outside``, to other files."""

    types: list[str] = field(default_factory=list)
    outside: dict[str, Link] = field(default_factory=dict)


def check_links(file: h5py.File, url: str) -> LinkSurvey:
    """Return where the links of an h5py file lead. FormatError for a group that lies below itself, Unsupported for
    links of a kind that HDF5 does not know."""
    from h5py import h5g, h5o

    survey = LinkSurvey()
    stack = [("", file.id, _groups_in(file.id, "", url, survey))]
    ancestors = [h5g.get_objinfo(file.id).objno]
    count = 1
    while stack:
        path, group, names = stack[-1]
        if not names:
            stack.pop()
            ancestors.pop()
            continue
        name, address = names.pop()
        inner = f"{path}/{name.decode(errors='replace')}".lstrip("/")
        count += 1
        if address in ancestors or count > _MAX_GROUPS:
            message = "this group lies below itself" if address in ancestors else f"more than {_MAX_GROUPS} groups"
            raise FormatError(message, url=url, node=inner, remedy="remove the link that leads to it")
        opened = h5o.open(group, name)
        stack.append((inner, opened, _groups_in(opened, inner, url, survey)))
        ancestors.append(address)
    return survey


def _groups_in(group: h5py.Group, path: str, url: str, survey: LinkSurvey) -> list[tuple[bytes, tuple[int, int]]]:
    """Return name and address of each group right below a group; add its types, and what leads outside, to the
    survey."""
    from h5py import Group, h5g, h5l

    links: list[tuple[bytes, int]] = []
    group.links.iterate(lambda name, info: links.append((name, info.type)), info=True)
    groups = []
    type_names = []
    for name, kind in links:
        inner = f"{path}/{name.decode(errors='replace')}".lstrip("/")
        if kind not in (h5l.TYPE_HARD, h5l.TYPE_SOFT, h5l.TYPE_EXTERNAL):
            remedy = "put what it leads to in its place"
            raise Unsupported(f"a link of an unknown kind ({kind})", url=url, node=inner, remedy=remedy)
        if kind != h5l.TYPE_HARD and (link := find_outside(group, name)) is not None:
            survey.outside[inner] = link
            continue
        try:
            info = h5g.get_objinfo(group, name)  # h5o.get_info would read every map of chunks
        except (KeyError, RuntimeError):
            if kind == h5l.TYPE_HARD:
                raise
            continue  # a link to nowhere, which the library will name
        if info.type == h5g.GROUP:
            groups.append((name, info.objno))
        elif info.type == h5g.TYPE:
            type_names.append(name.decode(errors="replace"))
    if len(type_names) > 1:  # in the order of their creation, where the file keeps it
        handle = group if isinstance(group, h5g.GroupID) else h5g.open(group, b"/")
        type_names = [name for name in Group(handle) if name in type_names]
    survey.types.extend(f"{path}/{name}".lstrip("/") for name in type_names)
    return groups


def find_outside(group: Any, name: bytes) -> Link | None:
    """Return what a name in a group of h5py (its identifier) leads to, where that is in another file; by the words of
    the links alone, of which none is followed out of the file."""
    from h5py import h5g, h5l

    base, way, waiting, hops = group, list[bytes](), [name], 0
    while waiting:
        step = waiting.pop(0)
        place = b"/".join([*way, step])
        if step in (b"", b"."):
            continue
        try:
            kind = base.links.get_info(place).type
        except (KeyError, RuntimeError):
            return None  # it leads nowhere
        if kind == h5l.TYPE_EXTERNAL:
            source, target = base.links.get_val(place)
            inside = b"/".join([target.strip(b"/"), *waiting]).decode(errors="replace")
            return Link(f"/{inside}", source.decode(errors="replace"))
        if kind != h5l.TYPE_SOFT:
            way.append(step)
            continue
        hops += 1
        if hops > _MAX_HOPS:
            return None
        target = base.links.get_val(place)
        if target.startswith(b"/"):
            base, way = h5g.open(base, b"/"), []
        waiting = [*target.split(b"/"), *waiting]
    return None


def iter_members(group: h5py.Group, outside: Mapping[str, Link]) -> Iterator[tuple[str, Any]]:
    """Yield name and node of each member of an h5py group, None for a link that leads nowhere; without those that lead
    to other files, of which the whole file has those that are ``outside``."""
    for name in group:
        if not outside or find_outside(group.id, name.encode()) is None:
            yield name, _get_member(group, name)


def _get_member(group: h5py.Group, name: str) -> Any:
    """Return the node of this name in an h5py group, None for a link that leads nowhere, or in a circle."""
    from h5py import SoftLink

    try:
        return group.get(name)
    except (OSError, RuntimeError):
        if isinstance(group.get(name, getlink=True), SoftLink):
            return None
        raise


def keeps_order(file: h5py.File) -> bool:
    """Return True if all groups of an h5py file remember the order in which their members were made. netCDF-C changes
    no other file, and h5py makes none unless ``track_order`` says so."""
    from h5py import Group, h5p

    def has_no_order(_: str, node: Any) -> bool | None:
        is_group = isinstance(node, Group)
        is_tracked = not is_group or node.id.get_create_plist().get_link_creation_order() & h5p.CRT_ORDER_TRACKED
        return None if is_tracked else True

    return has_no_order("", file["/"]) is None and file.visititems(has_no_order) is None


def find_unopened(file: h5py.File) -> str | None:
    """Return what a sound h5py file has, in words, that netCDF-C 4.10 opens no file with; None where it has no such, or
    h5py cannot read all that there is."""
    try:
        return _find_unopened(file)
    except (OSError, RuntimeError, ValueError, KeyError, TypeError):
        return None


def _find_unopened(file: h5py.File) -> str | None:
    from h5py import Dataset, Datatype, Group, SoftLink

    waiting = [file["/"]]
    while waiting:
        group = waiting.pop()
        if (name := find_table(group)) is not None:
            return f"the attribute {name!r} of {group.name} has several dimensions"
        for name in group:
            inner = f"{group.name.rstrip('/')}/{name}"
            match _get_member(group, name):
                case Dataset() as dataset if (table := find_table(dataset)) is not None:
                    return f"the attribute {table!r} of {inner} has several dimensions"
                case Datatype(id=handle) if has_nameless_enum(handle):
                    return f"the type {inner} has a field of an enum without a name, such as booleans of h5py"
                case None if isinstance(group.get(name, getlink=True), SoftLink):
                    return f"the link {inner} leads nowhere"
                case Dataset(shape=None):
                    return f"the array {inner} is one without cells (HDF5's null dataspace)"
                case Group() as below if not isinstance(group.get(name, getlink=True), SoftLink):
                    waiting.append(below)
    return None


def find_table(node: h5py.Group | h5py.Dataset) -> str | None:
    """Return the first attribute of numbers in several dimensions, with which netCDF-C reads no attribute of a node."""
    from h5py import h5t

    handles = ((name, node.attrs.get_id(name)) for name in node.attrs)
    tables = ((name, handle.get_type()) for name, handle in handles if len(handle.shape or ()) > 1)
    return next((name for name, kind in tables if isinstance(kind, h5t.TypeIntegerID | h5t.TypeFloatID)), None)


def find_external_storage(dataset: h5py.Dataset) -> str | None:
    """Return why the cells of an h5py dataset cannot be read, since they lie in other files; None if they do not."""
    from h5py import h5d

    plist = dataset.id.get_create_plist()
    if plist.get_external_count():
        return "the cells lie in another file (HDF5 external storage)"
    if plist.get_layout() != h5d.VIRTUAL:
        return None
    sources = {plist.get_virtual_filename(i) for i in range(plist.get_virtual_count())}
    return "the cells lie in other files (an HDF5 virtual dataset)" if sources - {"."} else None


# -- Global heaps ------------------------------------------------------------------------------------------------------
# A heap (III.E) is a list of objects, each of which says how long it is. A free one of length 0, which a block of zeros
# makes, is its own successor, and the HDF5 library goes round for ever. It is found before the file is given to it.

_HEAP_MARK = b"GCOL\x01\0\0\0"
_HEAP_OBJECT = struct.Struct("<HHIQ")
_MAX_SCANNED = 32 << 20  # bytes of a file that are looked through: some 10 ms, no more than opening it takes


def check_heaps(descriptor: int, url: str) -> None:
    """Raise FormatError for a heap that has no end; files of more than 32 MiB are not scanned."""
    if not 0 < os.fstat(descriptor).st_size <= _MAX_SCANNED:
        return
    with mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ) as data:
        for start, _ in _find_heaps(data):
            _raise_if_endless(data, start, f"the global heap at byte {start}", url)


def check_heap(data: bytes, url: str) -> None:
    """Raise FormatError if ``data`` begins with a heap that has no end."""
    if data.startswith(_HEAP_MARK):
        _raise_if_endless(data, 0, "a global heap", url)


def find_heaps(descriptor: int) -> list[Span]:
    """Return where the heaps lie that :func:`check_heaps` checks."""
    if not 0 < os.fstat(descriptor).st_size <= _MAX_SCANNED:
        return []
    with mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ) as data:
        return list(_find_heaps(data))


def _find_heaps(data: mmap.mmap) -> Iterator[Span]:
    start = data.find(_HEAP_MARK)
    while start >= 0:
        length = int.from_bytes(data[start + 8 : start + 16], "little")
        yield start, min(start + max(length, 16), len(data))
        start = data.find(_HEAP_MARK, start + len(_HEAP_MARK))


def _raise_if_endless(data: mmap.mmap | bytes, start: int, where: str, url: str) -> None:
    length = int.from_bytes(data[start + 8 : start + 16], "little")
    place, end = start + 16, min(start + length, len(data))
    while place + _HEAP_OBJECT.size <= end:
        index, _, _, size = _HEAP_OBJECT.unpack_from(data, place)
        step = size if index == 0 else _HEAP_OBJECT.size + size + -size % 8
        if not step:
            message = f"{where} has an object of no length, which the library reads for ever"
            raise document_error("hdf5-heap", message, url=url, remedy="restore the file from a copy")
        place += step


# -- B-trees of chunks -------------------------------------------------------------------------------------------------
# Where the chunks of a dataset lie stands in a B-tree (III.A.1: version 1, which netCDF writes). The library reads it
# depth first, one node after the other. A node lists its children, so all nodes of one level can come together.

_NODE_MARK = b"TREE\x01"  # nodes of type 0 are those of groups
_NODE_HEAD = struct.Struct("<4sBBHQQ")
_ADDRESS = 8
_FANOUT = 64  # children of a node: what HDF5 takes where nobody calls H5Pset_istore_k, and netCDF does not


def has_wide_addresses(head: bytes) -> bool:
    """Return True for an HDF5 file, by its ``head``, whose addresses have 8 bytes and count from its first byte."""
    if not head.startswith(HDF5_MAGIC) or len(head) < 16:
        return False
    return head[13 if head[8] < 2 else 9] == _ADDRESS


def is_node(data: bytes) -> bool:
    """Return True if ``data`` begins with a node of such a tree."""
    return data.startswith(_NODE_MARK)


def read_below(node: bytes, fetch: Callable[[list[Span]], list[bytes]]) -> None:
    """Fetch all nodes below one, level by level; bytes that are no such node have none below.

    Damage is found later by the library, which reads the same bytes.
    """
    level, seen = [node], set[Span]()  # a damaged tree may lead back to itself: no node is fetched twice
    while spans := {span for parent in level for span in _children(parent, len(node))} - seen:
        seen |= spans
        level = fetch(sorted(spans))


def _children(node: bytes, size: int) -> list[Span]:
    """Return where the children of a node lie; a leaf has none, since it lists chunks.

    A key is as long as the rank of the dataset makes it, which follows from the ``size`` of the whole node.
    """
    key, rest = divmod(size - _NODE_HEAD.size - _FANOUT * _ADDRESS, _FANOUT + 1)
    if not node.startswith(_NODE_MARK) or len(node) != size or rest or key <= 0:
        return []
    _, _, level, count, _, _ = _NODE_HEAD.unpack_from(node)
    if not level or count > _FANOUT:
        return []
    starts = range(_NODE_HEAD.size + key, _NODE_HEAD.size + key + count * (key + _ADDRESS), key + _ADDRESS)
    found = [struct.unpack_from("<Q", node, place)[0] for place in starts]
    return [(address, address + size) for address in found]


class ByteStream(io.RawIOBase):
    """The bytes of a file as h5py reads them from an object of Python: ``size()`` of them, ``read(start, stop)``.

    h5py lets a short read pass, and the library then takes what lay in its memory for bytes of the file. So what
    begins beyond the end is an error, and the rest of what reaches beyond it zeros, as of the library's own driver.
    """

    def __init__(self, size: Callable[[], int], read: Callable[[int, int], bytes]) -> None:
        self._size = size
        self._read = read
        self._place = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._place = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._place}.get(whence, self._size())
        return self._place

    def tell(self) -> int:
        return self._place

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        start, size = self._place, self._size()
        if start >= size:
            raise OSError(errno.EINVAL, f"byte {start} is beyond the end of the file, at {size}")
        data = self._read(start, min(start + len(view), size))
        view[:] = data.ljust(len(view), b"\0")
        self._place += len(view)
        return len(view)
