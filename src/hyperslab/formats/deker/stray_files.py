"""What lies beside the collections of a root and is none: left by processes that died, or put there by others."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from functools import partial

from hyperslab.errors import NotFound, Problem
from hyperslab.formats.base import Remedy
from hyperslab.stores.files import remove_tree, write_errors
from hyperslab.stores.keys import is_temporary
from hyperslab.stores.locks import hold_file
from hyperslab.stores.unexpected_files import has_no_writer


def is_left(path: str) -> bool:
    """Return whether a file or folder has a temporary name, and nobody is at work on it."""
    name = os.path.basename(path)
    if not is_temporary(name):
        return False
    try:
        return has_no_writer(name, time.time() - os.lstat(path).st_mtime)
    except OSError:
        return False


def leftovers(folder: str, names: Collection[str], known: Collection[str]) -> Iterator[Remedy]:
    """Of the ``names`` in the folder of all collections those that belong to none of the ``known`` ones."""
    for name in names:
        path = f"{folder}/{name}"
        if name in known or os.path.isfile(f"{path}/collection.json") or os.path.isdir(f"{path}/generations"):
            continue  # the other layout tells of its own
        if is_temporary(name):
            if is_left(path):
                yield _remedy("temporary", "an unfinished change was left", path, "remove it", partial(_remove, path))
        elif _is_unfinished(path):
            message = f"the collection {name} was not made or not removed to the end"
            yield _remedy("temporary", message, path, "remove its folder", partial(_remove_unfinished, path))
        elif os.path.isdir(path):
            yield _remedy("alien-folder", f"{name} is no collection: it has no document {name}.json", path)
        elif name.endswith(".lock"):
            if name.removesuffix(".lock") not in known:
                message = "the lock file of a collection that is not there"
                empty = os.path.isfile(path) and not os.path.getsize(path)
                empty = empty and not os.path.lexists(path.removesuffix(".lock"))
                yield _remedy("stray-lock", message, path, *(("remove it", partial(_unlock, path)) if empty else ()))
        else:
            yield _remedy("alien-file", f"{name} is no part of a collection", path)


def _is_unfinished(path: str) -> bool:
    """Return whether a folder holds nothing but the temporary files of writers that died."""
    try:
        return not os.path.islink(path) and all(is_left(f"{path}/{name}") for name in os.listdir(path))
    except OSError:
        return False


def _remove_unfinished(path: str) -> None:
    """Remove such a folder; one that a writer has begun to fill meanwhile stays, since it is not empty."""
    with write_errors(path, ""), suppress(FileNotFoundError):
        for name in os.listdir(path):
            if is_left(f"{path}/{name}"):
                os.unlink(f"{path}/{name}")
        with suppress(OSError):
            os.rmdir(path)


def _remedy(
    kind: str, message: str, path: str, action: str | None = None, act: Callable[[], None] | None = None
) -> Remedy:
    key = f"collections/{os.path.basename(path)}"
    return Remedy(Problem("", kind, f"{message} [key={key}]"), action, act, at=key)


def _remove(path: str) -> None:
    with write_errors(path, ""), suppress(FileNotFoundError):
        remove_tree(path) if os.path.isdir(path) and not os.path.islink(path) else os.unlink(path)


def _unlock(lock: str) -> None:
    """Remove a lock file while nobody holds it, unless its collection has been made meanwhile."""
    with write_errors(lock, ""), suppress(FileNotFoundError, NotFound), hold_file(partial(str, lock), 1):
        if not os.path.lexists(lock.removesuffix(".lock")):
            os.unlink(lock)
