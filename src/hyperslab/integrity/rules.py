"""The rules of every dataset of documents and chunks under keys, and of what a reader of any format refuses.

To add one: a :class:`~hyperslab.formats.rules.Rule` here or in ``chunk_rules``, beside the functions that find and
mend it; a row in the table of ``docs/how-to/check-and-repair.md``; a planted damage in ``tests/integrity/planting.py``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial

from hyperslab.array.growth import grow
from hyperslab.chunks.grid import Grid
from hyperslab.chunks.sparse_io import read_box
from hyperslab.errors import HyperslabError, Problem, StorageError
from hyperslab.formats.documents import read_document, write_again
from hyperslab.formats.rules import Finding, Plan, Rule, Rules, Stage, Subject, found, nothing
from hyperslab.formats.zarr.chunks import ChunkKeys
from hyperslab.formats.zarr.dialect import Docs, MetadataDialect
from hyperslab.formats.zarr.shards import open_chunks
from hyperslab.integrity.chunk_rules import CHUNK_RULES
from hyperslab.integrity.views import DatasetView, GroupView, NodeView, RepairState, Role
from hyperslab.model.dims import Coordinate, show_sizes, sizes_by_dimension
from hyperslab.model.paths import child, split
from hyperslab.model.spec import ArraySpec, GroupSpec
from hyperslab.stores.location import Location
from hyperslab.stores.unexpected_files import leftovers_of, remove_leftover

# -- documents ---------------------------------------------------------------------------------------------------------
# Missing, damaged, of two kinds at once, and consolidated metadata that says something else.


_LEFT_NOTHING = frozenset(["missing-document", "json-damaged", "json-kind"])
_FROM_A_COPY = "put the document back from a copy, and repair then; chunks are left alone"

# -- how they are found -----------------------------------------------------------------------------------------------


def find_missing_document(node: NodeView) -> Iterator[Finding]:
    """Yield a group or array without its document."""
    names = node.dataset.dialect.nodes
    if node.role is Role.BARE_GROUP:
        message = f"the group has no document ({' or '.join(names)})"
        yield found(node.path, "missing-document", message, key=node.path)
    elif node.role is Role.BARE_ARRAY:
        message = f"chunks or attributes lie here, but no {names[0]} says of what array"
        yield found(node.path, "missing-document", message, key=node.path)


def find_document_damage(node: NodeView) -> Iterator[Finding]:
    """Yield why the documents of a node cannot be read, or why nothing can be understood of them."""
    yield from node.stored.findings


def find_document_warnings(node: NodeView) -> Iterator[Finding]:
    """Yield what the format's reader survives in the documents of a node: what it adds by ``Problems.warn``."""
    yield from node.stored.warnings


def find_consolidated_damage(dataset: DatasetView) -> Iterator[Finding]:
    """Yield what consolidated metadata says otherwise than the documents, after all of them."""
    yield from dataset.consolidated.compare()


# -- how they are mended ----------------------------------------------------------------------------------------------


def take_out_second_document(state: RepairState, finding: Finding) -> Plan:
    """Take the document out that does not count."""
    return state.under_lock(state.quarantine.verb, partial(state.quarantine.take, finding.key))


def rewrite_document(state: RepairState, finding: Finding) -> Plan:
    """Write a document that is no JSON as it is understood."""

    def rewrite() -> None:
        data = state.store.get(finding.key)
        if data is not None:
            state.quarantine.keep(finding.key)
            state.store.put(finding.key, write_again(read_document(data, finding.key)), durable=True)

    return state.under_lock("write it as JSON", rewrite)


def mend_document(state: RepairState, finding: Finding) -> Plan:
    """Mend a document that makes no sense: from consolidated metadata, or as what is left of it is understood."""
    node, kind = finding.problem.node, finding.problem.kind
    dialect, name = state.dataset.dialect, finding.key.rpartition("/")[2]
    if node in state.dataset.unreadable and name in dialect.nodes:
        return restore_document(state, finding)
    if kind.startswith("json-") and name in (*dialect.extras, dialect.consolidated_name):
        return _restore_extra(state, node, finding.key, name)
    return write_as_understood(state, finding)


def write_as_understood(state: RepairState, finding: Finding) -> Plan:
    """Write the document that says what a node is as it is understood, if it makes sense then."""
    node, kind, dialect = finding.problem.node, finding.problem.kind, state.dataset.dialect
    if finding.key.rpartition("/")[2] not in dialect.nodes:
        return None
    state.writer.refresh(node)
    docs = dialect.render(state.writer.node(node))
    if kind in {problem.kind for problem in dialect.problems(docs, node)}:
        return None
    return state.under_lock("write the document as it is understood", partial(_put, state, node, docs))


def restore_document(state: RepairState, finding: Finding) -> Plan:
    """Take the documents from consolidated metadata; a group of which nothing is left gets a bare one."""
    node, dialect = finding.problem.node, state.dataset.dialect
    spare = state.dataset.consolidated.spare(node)
    if spare is not None:
        with suppress(HyperslabError):
            dialect.parse(spare, node)
            action = "take the documents from consolidated metadata" + _keeping(state, finding)
            return state.under_lock(action, partial(_put, state, node, spare))
    if node not in state.dataset.groups or finding.problem.kind not in _LEFT_NOTHING:
        return None
    blank = _group_document(dialect, {})
    if blank == _group_document(dialect, {"any": 1}):  # another document has the attributes
        lost = "; attributes that are stored beside it stay"
    else:
        lost = f" without attributes: those that stood in {', '.join(blank)} alone are lost"
        lost += ", and so is consolidated metadata if it stood there" if dialect.consolidated_name in blank else ""
    action = f"write the document of a group{lost}{_keeping(state, finding)}"
    return state.under_lock(action, partial(_put, state, node, blank))


def _group_document(dialect: MetadataDialect, attrs: Mapping[str, object]) -> Docs:
    """Return the document that makes a group of these attributes, without those that stand beside it."""
    docs = dialect.render(GroupSpec(attrs=attrs))
    return {name: docs[name] for name in dialect.nodes if name in docs}


def _keeping(state: RepairState, finding: Finding) -> str:
    """Return where the bytes of a damaged document are kept, for the end of a message; nothing of one that is gone."""
    name = finding.key.rpartition("/")[2]
    return f"; {state.quarantine.keeping(finding.key)}" if name in state.dataset.dialect.nodes else ""


def _restore_extra(state: RepairState, node: str, place: str, name: str) -> Plan:
    """Take a document of attributes, or consolidated metadata, from consolidated metadata above it, else out."""
    spare = state.dataset.consolidated.spare(node) or {}
    if name in spare:
        action = f"take it from consolidated metadata; {state.quarantine.keeping(place)}"
        return state.under_lock(action, partial(_put, state, node, {name: spare[name]}))
    verb = state.quarantine.verb
    action, take = state.under_lock(verb, partial(state.quarantine.take, place))
    if name != state.dataset.dialect.consolidated_name:
        return f"{action}: what stood in {name} alone is lost", take

    def take_and_consolidate() -> None:
        take()
        state.writer.consolidate()

    return f"{action} and write it anew", take_and_consolidate


def _put(state: RepairState, node: str, docs: Docs) -> None:
    """Store documents; those that say what a node is come last, so that it is never half of the new one."""
    dialect = state.dataset.dialect
    for name in (*dialect.extras, *dialect.nodes):
        if name in docs:
            state.quarantine.keep(child(node, name))
            state.store.put(child(node, name), write_again(docs[name]), durable=True)


def renew_consolidated(state: RepairState, finding: Finding) -> Plan:
    """Write consolidated metadata anew: of several findings about one the first mends all."""
    holder: str = finding.detail
    action = f"write the consolidated metadata of /{holder} anew"
    if holder in state.renewed:
        return action, nothing
    state.renewed.add(holder)

    def consolidate() -> None:
        state.quarantine.keep(child(holder, state.dataset.dialect.consolidated_name))
        state.writer.consolidate(holder)

    return action, consolidate


# -- the table --------------------------------------------------------------------------------------------------------

DOCUMENT_RULES = (
    Rule(
        ("missing-document",),
        "a group or array without its document",
        "restored from consolidated metadata; a group that is not in it gets an empty document, and the "
        "plan says what is lost",
        Subject.NODE,
        find_missing_document,
        restore_document,
        Stage.START,
        otherwise=_FROM_A_COPY,
    ),
    Rule(
        ("json-damaged", "json-size", "json-depth", "json-values", "json-kind"),
        "a document that cannot be parsed, exceeds a limit or is invalid",
        "restored from consolidated metadata; attributes that were only in the document are lost, which "
        "the plan says; the damaged bytes are moved to quarantine",
        Subject.NODE,
        find_document_damage,
        mend_document,
        Stage.START,
        fields=True,
        otherwise=_FROM_A_COPY,
    ),
    Rule(
        (),
        "a wrong field in a document that can still be interpreted",
        "the document is rewritten as interpreted, if that fixes it; otherwise not repairable",
        Subject.NODE,
        find_document_warnings,
        write_as_understood,
        Stage.DOCUMENTS_READABLE,
        fields=True,
    ),
    Rule(
        ("json-mended",),
        "a document with bytes that are not JSON",
        "rewritten as JSON",
        Subject.NODE,
        find_document_damage,
        rewrite_document,
        Stage.START,
    ),
    Rule(
        ("two-kinds",),
        "both an array and a group",
        "the document that is ignored is moved to quarantine",
        Subject.NODE,
        find_document_damage,
        take_out_second_document,
        Stage.START,
    ),
    Rule(
        ("stale-copy", "incomplete-copy", "copy-of-nothing", "damaged-copy"),
        "consolidated metadata that differs from the documents",
        "rewritten",
        Subject.DATASET,
        find_consolidated_damage,
        renew_consolidated,
        Stage.ALL_ELSE_MENDED,
    ),
)


# -- arrays of a group -------------------------------------------------------------------------------------------------
# The sizes that they give to one dimension, and what its coordinates look like.


# Longer coordinates are not looked at: a check reads no more than 8 MiB for a note.
_MOST_LABELS = 1 << 20

# -- how they are found -----------------------------------------------------------------------------------------------


def find_dimension_sizes(group: GroupView) -> Iterator[Finding]:
    """Yield dimensions whose arrays disagree about their size, unless the format itself tells of them."""
    if group.dataset is not None and (group.dataset.format_warns or group.dataset.traits.repeats_dimensions):
        return
    specs = [(each.name, each.spec) for each in group.members]
    once = [(name, [dim if spec.dims.count(dim) == 1 else None for dim in spec.dims], spec) for name, spec in specs]
    names = sizes_by_dimension((name, dims, spec.shape) for name, dims, spec in once)
    for dim, by_size in names.items():
        if len(by_size) > 1:
            message = f"the dimension {dim!r} has several sizes: {show_sizes(by_size)}"
            cut_short = _find_cut_short(group, dim)
            if cut_short:
                message += f"; chunks are stored behind the end of {', '.join(split(path)[1] for path in cut_short)}"
            # The levels of an image pyramid have the same names and different sizes: nothing is wrong in plain Zarr.
            is_note = group.dataset is not None and not cut_short and dim not in group.unlimited
            detail = (dim, cut_short)
            yield found(group.path, "dimension-sizes", message, key=group.path, detail=detail, is_note=is_note)
    for member in group.members:
        spec = member.spec
        if len(spec.shape) == 1 and member.name in names and member.name not in spec.dims:
            lengths = sorted(names[member.name])
            if spec.shape[0] not in lengths:
                message = f"{spec.shape[0]} labels for the dimension {member.name!r} of {lengths[0]}"
                yield found(member.path, "coordinate-length", message, is_note=True)


def _find_cut_short(group: GroupView, dim: str) -> dict[str, int]:
    """Return the size of the dimension that arrays had before they were cut short, by path: of those that have stored
    chunks behind their end, the size of all other arrays, where these agree and it holds the chunks."""
    axes = {each: each.spec.dims.index(dim) for each in group.members if each.spec.dims.count(dim) == 1}
    behind = {}  # the last chunk of each array that has some behind its end
    for each, axis in axes.items():
        if each.last and each.last[axis] >= _count_chunks(each.spec, dim, each.spec.shape[axis]):
            behind[each] = each.last[axis]
    others = {each.spec.shape[axis] for each, axis in axes.items() if each not in behind}
    if len(others) != 1:  # the levels of a pyramid: no size is known to be meant
        return {}
    (size,) = others
    return {
        each.path: size
        for each, last in behind.items()
        if each.spec.shape[axes[each]] < size and last < _count_chunks(each.spec, dim, size)
    }


def _count_chunks(spec: ArraySpec, dim: str, size: int) -> int:
    """Return the number of chunks along a dimension that has this size."""
    resized = _with_size(spec, dim, size) or spec
    return Grid.of(resized.shape, resized.chunks).axes[spec.dims.index(dim)].count


def find_unordered_coordinates(group: GroupView) -> Iterator[Finding]:
    """Yield coordinates of numbers or times that neither rise nor fall: looked at when they are not huge."""
    dataset = group.dataset
    if dataset is None:
        return
    for member in group.members:
        spec = member.spec
        if spec.dims != (member.name,) or spec.numpy_dtype.kind not in "iufM" or spec.shape[0] > _MOST_LABELS:
            continue
        try:
            keys = ChunkKeys(dataset.store, member.path, dataset.dialect.key_of(spec), dataset.settings)
            source = open_chunks(keys, spec)
            labels = read_box(source, spec, (slice(0, spec.shape[0]),), dataset.settings)
        except HyperslabError:
            continue  # said of its chunks
        if not Coordinate(labels).trend:
            yield found(member.path, "coordinate-order", "the labels neither rise nor fall throughout", is_note=True)


# -- how they are mended ----------------------------------------------------------------------------------------------


def resize_arrays(state: RepairState, finding: Finding) -> Plan:
    """Make arrays of which chunks are stored behind their end as long again as these ask for."""
    dim, sizes = finding.detail
    texts, old_lengths = [], {}
    for path, size in sizes.items():
        old = state.resized.get(path) or state.spec_now(path)
        new = None if old is None else _with_size(old, dim, size)
        if old is not None and new is not None:
            texts.append(f"/{path} from {old.shape} to {new.shape}")
            old_lengths[path] = old.shape[old.dims.index(dim)]
            state.resized[path] = new
    if not texts:
        return None

    def resize() -> None:
        for path, length in old_lengths.items():
            with state.writer.lock_node(path):
                now = state.spec_now(path)
                new = None if now is None else _with_size(now, dim, sizes[path])
                # not where it was given another length meanwhile
                if now is not None and new is not None and now.shape[now.dims.index(dim)] == length:
                    state.writer.put(path, new)

    return f"make {', '.join(texts)}; new cells read as what is stored there, else the fill value", resize


def _with_size(spec: ArraySpec, dim: str, size: int) -> ArraySpec | None:
    """Return the array with another size of a dimension; None when it has that size, or not this dimension once."""
    if spec.dims.count(dim) != 1:
        return None
    axis = spec.dims.index(dim)
    shape = (*spec.shape[:axis], size, *spec.shape[axis + 1 :])
    return None if shape == spec.shape else grow(spec, shape)


# -- the table --------------------------------------------------------------------------------------------------------

DIMENSION_RULES = (
    Rule(
        ("dimension-sizes",),
        "arrays of a group that disagree about the length of a dimension; in plain Zarr a note (the levels of an image "
        "pyramid disagree rightly), unless chunks are stored behind the end of the shorter one",
        "an array is extended over chunks that are stored behind its end; otherwise not repaired",
        Subject.GROUP,
        find_dimension_sizes,
        resize_arrays,
        Stage.DOCUMENTS_RIGHT,
        otherwise="append to the shorter arrays, or resize the longer ones, where rows were added or removed at the "
        "end; where a removal from the front has stopped, remove the same rows from the longer arrays, by position: "
        "resize would shift their rows",
    ),
    Rule(
        ("coordinate-length",),
        "a note: the number of labels differs from the length of the dimension",
        "not repaired",
        Subject.GROUP,
        find_dimension_sizes,
    ),
    Rule(
        ("coordinate-order",),
        "a note: labels that are not monotonic",
        "not repaired",
        Subject.GROUP,
        find_unordered_coordinates,
        deep=True,
    ),
)


# -- whole copies beside a dataset ------------------------------------------------------------------------------------


def find_leftovers(where: Location) -> Iterator[Finding]:
    """Yield the whole copies that dead writers left beside a dataset; none where it lies on no disk of this machine."""
    for each in leftovers_of(where.path) if where.path is not None else ():
        size = f" of {each.nbytes} bytes" if each.nbytes else ""
        message = f"a copy{size} beside the dataset, by a writer that is gone [file={os.path.basename(each.path)}]"
        yield Finding(Problem("", "temporary", message), "remove it", partial(_remove_copy, each.path))


def _remove_copy(path: str) -> None:
    try:
        remove_leftover(path)
    except OSError as error:
        raise StorageError(f"it cannot be removed: {error.strerror or error}") from error


# -- the table --------------------------------------------------------------------------------------------------------

RULES = Rules(
    *DOCUMENT_RULES,
    *DIMENSION_RULES,
    Rule(
        ("temporary",),
        "an unfinished write of a dead writer, or a complete copy that it left beside the dataset; from "
        "another machine only if older than an hour (a copy: than a week)",
        "removed",
        Subject.BESIDE,
        find_leftovers,  # findings bring their deeds, which need no other mend
    ),
    *CHUNK_RULES,
    # what keeps the survey from looking further is found by the survey itself
    Rule(
        ("unreadable-folder", "unreadable-document", "too-deep"),
        "the disk, permissions or a limit prevent reading",
        "not repairable here",
        Subject.NODE,
    ),
    Rule(
        ("unreadable-file", "unreadable-node"),
        "a file, or a node in it, that cannot be opened",
        "not repairable here",
        Subject.NODE,
    ),
    Rule(
        ("not-decoded",),
        "an array whose type, codec or size this installation cannot decode",
        "left alone",
        Subject.ARRAY,
    ),
    Rule(
        ("not-shown",),
        "a note: a part of a file that hyperslab has no equivalent for",
        "left alone",
        Subject.NODE,
    ),
)
