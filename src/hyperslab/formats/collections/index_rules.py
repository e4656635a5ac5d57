"""Damage of the objects of an index in a bucket, and what mends it. Queries go without an index that is damaged."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from hyperslab.formats.collections.manifest_index import ManifestIndex
from hyperslab.formats.collections.manifests import is_manifest
from hyperslab.formats.collections.published_index import CURRENT
from hyperslab.formats.rules import Finding, found_at
from hyperslab.stores.base import Store


def find_index_damage(index: ManifestIndex, store: Store, folder: str, name: str) -> Iterator[Finding]:
    """Yield what is no part of the index of the collection ``name`` any more, or never was, in a store's folder."""
    head = f"{folder}/{CURRENT}"
    if fault := index.find_fault():
        act = partial(_drop_head, index, store, head)
        message = f"{fault}: queries go without the index"
        yield found_at(name, "unusable-index", message, head, "remove it: who may write makes it anew", act, (head,))
    for key in index.find_leftovers():
        act, message = partial(_drop_manifest, index, store, key), "a writer of the index died"
        yield found_at(name, "leftover", message, key, "remove it", act, (key,))
    files, folders = store.list_dir(folder)
    for each in sorted({*files, *folders} - {CURRENT}):
        if not is_manifest(each):
            yield found_at(name, "stray", "this is no part of an index", f"{folder}/{each}")


def _drop_head(index: ManifestIndex, store: Store, head: str) -> None:
    if index.find_fault():
        store.delete(head)


def _drop_manifest(index: ManifestIndex, store: Store, key: str) -> None:
    if index.is_leftover(key):
        store.delete(key)
