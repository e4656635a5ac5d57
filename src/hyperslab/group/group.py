"""The ``Group`` that users hold: names to nodes. What a group knows of dimensions is in ``dimensions``, and making
arrays in ``creation``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import TYPE_CHECKING, Any

from hyperslab.array import Array
from hyperslab.array.attributes import Attributes
from hyperslab.array.references import attrs_from, reference_to
from hyperslab.array.session import Closable, OpenDataset
from hyperslab.chunks.plan import grouped
from hyperslab.errors import AlreadyExists, BrokenLink, HyperslabError, Invalid, NodeNotFound, Unsupported
from hyperslab.formats.base import Feature
from hyperslab.group.creation import declare, dimensions_of
from hyperslab.group.html import tree_text
from hyperslab.group.links import follow, link_to, refuse_links_above, resolve
from hyperslab.model.dims import Dimension
from hyperslab.model.dtypes import Extension
from hyperslab.model.paths import child, join, split
from hyperslab.model.refs import Link, ObjectReference, Pointer
from hyperslab.model.spec import ArraySpec, GroupSpec

if TYPE_CHECKING:
    from hyperslab.web.notebook import NotebookExplorer


class Group(Closable, MutableMapping[str, "Group | Array"]):
    """A group of a dataset: ``group["a/b"]`` is a :class:`Group` or an :class:`Array`; nothing is read before."""

    def __init__(self, session: OpenDataset, path: str) -> None:
        self._session = session
        self._path = path

    # -- what it is -------------------------------------------------------------------------------------------------

    @property
    def spec(self) -> GroupSpec:
        """All that the documents say of the group itself."""
        spec = self._session.reader.node(self._path)
        if not spec.is_group:
            raise NodeNotFound("the group is gone", url=self._session.url, node=self._path)
        return spec

    @property
    def ref(self) -> ObjectReference:
        """A reference to the group: a value of attributes and cells where the format has such."""
        return reference_to(self._session, self._path, self.spec)

    @property
    def object_ids(self) -> Mapping[str, str]:
        """The path of every node of the dataset that has an ``object_id``, by that; empty where a format has none."""
        return self._session.reader.object_ids()

    @property
    def specifications(self) -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
        """The schemas that the dataset holds: namespace, version (the newest last), source; empty without any."""
        return self._session.reader.specifications()

    @property
    def attrs(self) -> Attributes:
        """The attributes, ordered and typed; changes write through."""
        return Attributes(self._session, self._path)

    @property
    def dims(self) -> Mapping[str, Dimension]:
        """The dimensions declared here and those of the arrays right below, by name."""
        return dimensions_of(self._session, self._path)

    @property
    def types(self) -> Mapping[str, Extension]:
        """The named types declared in the group."""
        return self.spec.types

    @property
    def format(self) -> str:
        """The name of the dataset's format."""
        return self._session.format.name

    @property
    def store(self) -> Any:
        """The store that the dataset lies in; None where the format has none (netCDF)."""
        return self._session.reader.store

    # -- mapping ----------------------------------------------------------------------------------------------------

    def __getitem__(self, name: str | Pointer) -> Group | Array:
        """Return the node at a path, or what a link or reference leads to; NodeNotFound (a KeyError) or BrokenLink."""
        if not isinstance(name, str):
            return self._pointed(name)
        session, path, spec = follow(self._session, join(self._path, name))
        return Array(session, path, spec) if spec.is_array else Group(session, path)

    def _pointed(self, pointer: object) -> Group | Array:
        """Return what a link or reference leads to; one that was read from another dataset leads on from there."""
        if not isinstance(pointer, Pointer):
            message = f"a group is indexed by names and references, not {type(pointer).__name__}"
            raise Invalid(message, url=self.url, node=self._path, remedy="name an array of it to index cells")
        home = None if isinstance(pointer, Link) else pointer.home
        found: Group | Array = node_of(self._session, pointer) if home is None else home.resolve(pointer)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._session.reader.children(self._path))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _ipython_key_completions_(self) -> list[str]:
        """Return what IPython and Jupyter offer behind ``group["``: the names right below."""
        return list(self)

    def __contains__(self, name: object) -> bool:
        try:
            if not isinstance(name, str):
                return isinstance(name, Pointer) and self._pointed(name) is not None
            return self._session.reader.node(join(self._path, name)) is not None
        except NodeNotFound:
            if "/" not in str(name):
                return False
            try:  # it may stand behind a link
                return follow(self._session, join(self._path, str(name))) is not None
            except HyperslabError:
                return False
        except (BrokenLink, Invalid):
            return False
        except HyperslabError:
            return True

    def __setitem__(self, name: str, value: Any) -> None:
        """Make a new array of these cells; AlreadyExists when the name is taken."""
        self.create_array(name, data=value)

    def __delitem__(self, name: str) -> None:
        """Remove the node with all below it; of a link the link alone. NodeNotFound (a KeyError)."""
        writer = self._session.writer()
        path = join(self._path, name)
        writer.node(path)
        writer.drop(path)

    def groups(self) -> Iterator[tuple[str, Group]]:
        """Yield name and group of each group right below; not of those that only links lead to, which may be above."""
        for name, node in self._nodes(linked=False):
            if isinstance(node, Group):
                yield name, node

    def arrays(self) -> Iterator[tuple[str, Array]]:
        """Yield name and array of each array right below, and of those that links lead to; broken links are passed
        over."""
        for name, node in self._nodes(linked=True):
            if isinstance(node, Array):
                yield name, node

    def links(self) -> Iterator[tuple[str, Link]]:
        """Yield name and link of each link right below; none is followed."""
        for name in self if self._session.has_links else ():
            with suppress(HyperslabError):
                if (link := self._session.reader.node(join(self._path, name))).is_link:
                    yield name, link

    def _nodes(self, *, linked: bool) -> Iterator[tuple[str, Group | Array]]:
        for name in self:
            path = join(self._path, name)
            spec = self._session.reader.node(path)
            if spec.is_array:
                yield name, Array(self._session, path, spec)
            elif not spec.is_link:
                yield name, Group(self._session, path)
            elif linked:
                with suppress(HyperslabError):
                    yield name, self[name]

    # -- making -----------------------------------------------------------------------------------------------------

    def create_group(self, name: str, attrs: Mapping[str, Any] | None = None) -> Group:
        """Return a new empty group; missing ones between are made too. AlreadyExists when the name is taken,
        ReadOnly."""
        writer, spec = self._session.writer(), GroupSpec(attrs=attrs_from(self._session, attrs or {}))
        with self._making(name) as path:
            writer.put(path, spec)
        return Group(self._session, path)

    def create_dimension(self, name: str, size: int | None = None) -> Dimension:
        """Return a new dimension that arrays here and below can run along; without a size it is unlimited, and empty so
        far.

        AlreadyExists when the group declares one of this name, Invalid for a name or length that cannot be, Unsupported
        when the format has no dimensions of its own.
        """
        return declare(self._session, self._path, name, size)

    def create_array(self, name: str, shape: Any = None, dtype: Any = None, **options: Any) -> Array:
        """Return a new array; cells read as the fill value until they are written.

        ``dims``: a name (or None) per dimension. ``chunks``: ``"auto"``, lengths per dimension, or a mapping of
        dimension names; ``shards`` likewise, False (``"none"``) for none, or ``"many"``: where chunks would be many
        small files and the format has shards, as in Zarr v3 without a word where there is ``data``. ``codec``:
        ``"default"``, ``"none"``, ``"zstd:5"``, a list … ``checksum``: whether one guards each chunk (None: as is usual
        in the format; in Zarr v3 it does). ``fill_value``, ``units``, ``attrs``. ``data``: cells to write (then shape
        and dtype may be left out); also of dask, of ``sparse`` (``densify=True`` stores all cells) and a Quantity of
        pint, whose units it gets. ``sparse=True``: made to hold few cells that are not the fill value.
        AlreadyExists when the name is taken, Invalid when the parts contradict each other, WrongType for an array as
        the shape, Unsupported when the format has no such cells, chunks or codec.
        """
        from hyperslab.group.creation import Wish, array_spec  # on use: with it come all codecs

        path = self._free(name)
        writer = self._session.writer()
        wish = Wish.of({"shape": shape, "dtype": dtype, **options})
        with self._session.add_place_to_errors(path):
            spec = array_spec(wish, self._session, self._path)
        with writer.one_commit():
            with self._making(name):
                writer.put(path, spec)
                made = self._session.stamp(path)
            array = Array(self._session, path, spec)
            array.refresh()
            if wish.data is not None:
                try:
                    array[...] = wish.data
                except BaseException:
                    with suppress(HyperslabError), self._session.lock_node(""):
                        if self._session.stamp(path) == made:  # else another writer has removed or changed it since
                            writer.drop(path)
                    raise
        return array

    def create_link(self, name: str, target: object, source: str | None = None) -> None:
        """Make a name that stands for another node.

        ``target``: its path in the dataset ``source`` (a POSIX path from this one's root, this one where it is left
        out), or the node itself, or a reference to it, also of another open dataset. Unsupported in formats without
        links, AlreadyExists when the name is taken, Invalid for a target that is none.
        """
        self._session.require(Feature.LINKS, f"no link {name!r}")
        writer, link = self._session.writer(), link_to(self._session, target, source)
        above, _ = split(self._free(name))  # locked before the root, as by all who change a group
        with self._session.lock_node(above), self._making(name) as path:
            writer.put(path, link)

    def move(self, source: str, target: str) -> None:
        """Rename a node with all below it.

        NodeNotFound without a ``source``, AlreadyExists when ``target`` is taken, Invalid when it lies in ``source``.
        """
        writer = self._session.writer()
        old, _ = self._both_ends(source, target, "moved")
        with self._making(target) as new:
            is_moved = writer.move(old, new)
        if not is_moved:
            self.copy(source, target)
            writer.drop(old)

    def copy(self, source: str, target: str) -> None:
        """Copy a node with all below it; errors as for :meth:`move`."""
        writer = self._session.writer()
        old, spec = self._both_ends(source, target, "copied")
        raise_if_omissions(self._session, old)
        with writer.one_commit():
            with self._making(target) as new:
                writer.put(new, spec)
            copy_content(self._session, old, new)

    def _both_ends(self, source: str, target: str, done: str) -> tuple[str, GroupSpec | ArraySpec | Link]:
        """Return the path of a node that is to be moved or copied, and the node; the target is free."""
        old, new = join(self._path, source), self._free(target)
        spec = self._session.reader.node(old)
        if f"{new}/".startswith(f"{old}/"):
            remedy = "name a target outside of it"
            raise Invalid(f"/{old} cannot be {done} into itself", url=self.url, node=new, remedy=remedy)
        return old, spec

    @contextmanager
    def _making(self, name: str) -> Iterator[str]:
        """Hold the names of the dataset while a node is made, and look again: of several writers one makes it."""
        path = self._free(name)
        with self._session.add_place_to_errors(path), self._session.lock_node(""):
            self._session.refresh(path)
            yield self._free(name)

    def _free(self, name: str) -> str:
        path = join(self._path, name)
        if "/" in name and Feature.LINKS in self._session.format.features:
            refuse_links_above(self._session, path)
        if not path or name in self:
            raise AlreadyExists(
                f"/{path} exists", url=self._session.url, node=path, remedy="delete it first, or choose another name"
            )
        return path

    def batch(self) -> AbstractContextManager[None]:
        """Write each document of the block once, and consolidated metadata at the end."""
        return self._session.writer().batch()

    def read_table(self, start: int = 0, stop: int | None = None) -> dict[str, Any]:
        """Return rows of a ``DynamicTable`` of HDMF, or of a data frame of :func:`.write_frame`: columns by name,
        decoded, ragged ones as lists; ``start`` and ``stop`` as of a slice.

        Invalid for a group that is no such table; FormatError where the ends of rows make no sense, and for a column
        that cannot be opened the error that opening it gives.
        """
        from hyperslab.group.tables import find_columns

        with self._session.add_place_to_errors(self._path):
            columns = find_columns(self._session, self._path)
            if columns is None:
                raise Invalid(
                    "the group is no table", node=self._path, remedy="name a DynamicTable of HDMF, or a data frame"
                )
            rows = range(max((column.length for column in columns.values()), default=0))[start:stop]
            return {name: column.read(rows.start, rows.stop) for name, column in columns.items()}

    # -- for others ------------------------------------------------------------------------------------------------

    def to_xarray(self, **options: Any) -> Any:
        """Return the arrays right below as a lazy ``xarray.Dataset``; ``options`` as in ``xarray.open_dataset``:
        ``chunks={}`` gives dask arrays of the stored chunks."""
        from hyperslab.bridges.xarray import open_lazy

        return open_lazy(self, **options)

    def to_datatree(self, **options: Any) -> Any:
        """Return the group with all below it as a lazy ``xarray.DataTree``; ``options`` as in
        ``xarray.open_datatree``."""
        from hyperslab.bridges.xarray import open_lazy_tree

        return open_lazy_tree(self, **options)

    # -- looking ----------------------------------------------------------------------------------------------------

    def explore(self, *, proxy: str | None = None, height: int = 640) -> NotebookExplorer:
        """Return the explorer of the group, which a notebook shows in a frame; its ``url`` is for a browser.

        ``proxy``, ``height``: as for :func:`hyperslab.web.notebook.explore`. MissingLibrary without ``hyperslab[web]``.
        """
        from hyperslab.web.notebook import explore

        return explore(self, proxy=proxy, height=height)

    def tree(self) -> str:
        """Return the tree of groups, arrays and links below, as text."""
        return tree_text(self._session, self._path)

    def __repr__(self) -> str:
        if self._session.is_unopened:
            return f"<hyperslab Group /{self._path} of {self.url}>"
        try:
            names = ", ".join(self) or "empty"
        except HyperslabError as error:  # a web server that lists nothing, say
            names = error.message
        return f"<hyperslab Group /{self._path} of {self.url} ({self.format}): {names}>"

    def _repr_html_(self) -> str:
        from hyperslab.group.html import group_html

        return group_html(self._session, self._path)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Group) and other._path == self._path and other._session.reader is self._session.reader

    def __hash__(self) -> int:
        return hash((self.url, self._path))


def node_of(session: OpenDataset, pointer: Pointer) -> Group | Array:
    """Return what a link or reference leads to that was read from this dataset."""
    led, path, spec = resolve(session, pointer)
    return Array(led, path, spec) if spec.is_array else Group(led, path)


# -- copies of nodes ---------------------------------------------------------------------------------------------------

# Chunks that are read before they are written together: so many are in memory at once.
CHUNKS_PER_COPY = 16


def copy_content(session: OpenDataset, source: str, target: str) -> None:
    """Give ``target``, which was just made as ``source`` is, the cells of ``source`` and copies of all below it."""
    writer = session.writer()
    waiting = [(source, target)]
    while waiting:
        source, target = waiting.pop()
        spec = writer.node(source)
        if spec.is_array:
            stored, copied = writer.chunks(source), writer.chunks(target)
            for batch in grouped(stored.stored_coords(), copied.grid, CHUNKS_PER_COPY):
                blocks = ((place, stored.read(place)) for place in batch)
                pairs = [(place, block) for place, block in blocks if block is not None]
                copied.write_batch(pairs, durable=session.settings.durable)
        elif spec.is_group:
            below = [(child(source, name), child(target, name)) for name in writer.children(source)]
            for inner, copy in below:
                writer.put(copy, writer.node(inner))
            waiting += reversed(below)


def raise_if_omissions(session: OpenDataset, path: str) -> None:
    """Refuse to copy a node that holds what is not shown: Unsupported."""
    lost = [str(problem) for problem in session.reader.omitted_below(path)]
    if lost:
        message = f"the copy would lack what is not shown: {'; '.join(lost)}"
        raise Unsupported(message, url=session.url, node=path, remedy="copy it with a library of the format itself")
