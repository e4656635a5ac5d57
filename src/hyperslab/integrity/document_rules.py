"""Rules about documents: missing, damaged, of two kinds at once, and consolidated metadata that says something else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial

from hyperslab.errors import HyperslabError
from hyperslab.formats.documents import read_document, write_again
from hyperslab.formats.rules import Finding, Plan, Rule, Stage, Subject, found, nothing
from hyperslab.formats.zarr.dialect import Docs, MetadataDialect
from hyperslab.integrity.views import DatasetView, NodeView, RepairState, Role
from hyperslab.model.paths import child
from hyperslab.model.spec import GroupSpec

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
