"""Build beside the target under a temporary name, and put it in place by a rename once it is complete."""

from __future__ import annotations

import errno
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress

from hyperslab.errors import AlreadyExists, HyperslabError, Invalid
from hyperslab.stores.credentials import redact
from hyperslab.stores.files import (
    CAN_FLUSH_ALL,
    exchange,
    flush_all,
    link_new,
    open_folder,
    sync_and_close,
    sync_folder,
    write_error,
)
from hyperslab.stores.keys import PARTIAL, new_token, partial_name
from hyperslab.stores.system import ALWAYS, FLUSHABLE, rename, replace_file
from hyperslab.stores.unexpected_files import remove_leftovers

# Files up to which each is flushed by itself; for more, one flush of the whole file system is cheaper.
FILES_FLUSHED_ONE_BY_ONE = 200
_REPLACE = "choose another, or mode='w' (of create and convert overwrite=True, --overwrite) to replace it"
_TAKEN = (errno.ENOTEMPTY, errno.EEXIST, errno.EISDIR, errno.ENOTDIR)
# Seconds between tries to remove a folder: threads of a build that failed may write there for a moment yet.
_PAUSES = (0.01, 0.05, 0.2, 0.5)


@contextmanager
def building(
    target: str, *, overwrite: bool = False, durable: bool = True, around: AbstractContextManager[None] | None = None
) -> Iterator[str]:
    """Yield a path beside ``target`` (a file or a folder to be): renamed to it when the block ends, removed when it
    fails.

    Whatever interrupts the block, ``target`` is afterwards what it was before, or complete; and, if ``durable``, so it
    is when the system dies while it takes its place, but for this: where two folders cannot change places (only Linux
    can, and not in every file system), there is a moment without one at ``target``, the old one being beside it as
    ``.partial-…``. A symbolic link stays and what it names is replaced. ``around``: entered while it takes its place.
    AlreadyExists unless ``overwrite``, Invalid when nothing was made.
    """
    if "://" in target:
        raise Invalid(f"{redact(target)} is no path of this machine", remedy="write a local file and copy it there")
    target = os.path.realpath(target)
    refuse_taken(target, overwrite)
    temporary = sibling(target)
    try:
        _make_folder(os.path.dirname(target))
        yield temporary
        if not os.path.lexists(temporary):
            raise Invalid("nothing was written", url=target, remedy="write an array, or remove the old target yourself")
        with around or nullcontext():
            put_in_place(temporary, target, overwrite=overwrite, durable=durable)
    except HyperslabError as error:
        if error.url is not None:  # nobody knows the temporary name
            error.url = error.url.replace(temporary, target)
        raise
    except OSError as error:
        raise write_error(error, target, "") from error
    finally:
        remove(temporary)


def sibling(target: str) -> str:
    """Return a name beside ``target`` that nobody uses, with its ending; as long as a file name may be at the most."""
    folder, name = os.path.split(target)
    return os.path.join(folder, f"{PARTIAL}{new_token()}-{partial_name(name)}")


def remove(path: str) -> None:
    """Remove a file or folder; missing is fine. Threads of a build that failed may write there for a moment yet."""
    if os.path.isdir(path) and not os.path.islink(path):
        for pause in _PAUSES:
            try:
                shutil.rmtree(path)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT):
                    raise
            if not os.path.isdir(path):
                return
            time.sleep(pause)
        shutil.rmtree(path, ignore_errors=True)
    elif os.path.lexists(path):
        os.unlink(path)


def make_durable(path: str) -> None:
    """Have the medium keep a file, or a folder with all below it: file by file where they are few, else all at once."""
    files = [path]
    if os.path.isdir(path):
        for folder, _, names in os.walk(path):
            files += [folder, *(os.path.join(folder, name) for name in names)]
            if len(files) > FILES_FLUSHED_ONE_BY_ONE and hasattr(os, "sync"):
                sync_medium(path)
                return
    for name in files:
        if os.path.isdir(name):
            with open_folder(name) as descriptor:
                sync_folder(descriptor)
        else:
            sync_and_close(os.open(name, FLUSHABLE | ALWAYS))


def sync_medium(folder: str) -> None:
    """Have the medium keep all that was written to the file system of ``folder``; on systems without syncfs(2), to all.

    A folder that is not there yet is no error: the nearest one above it counts.
    """
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    if CAN_FLUSH_ALL:
        flush_all(folder)
    elif hasattr(os, "sync"):
        os.sync()
    else:
        make_durable(folder)


def refuse_taken(target: str, overwrite: bool) -> None:
    """Raise AlreadyExists when something has the target's name, unless ``overwrite``. An empty folder is free."""
    is_empty_folder = os.path.isdir(target) and not os.path.islink(target) and not os.listdir(target)
    if not overwrite and os.path.lexists(target) and not is_empty_folder:
        raise already_exists(target)


def already_exists(url: str, remedy: str = _REPLACE) -> AlreadyExists:
    """Return the error for a place that is in use. ``remedy``: where nothing that is there is ever replaced."""
    return AlreadyExists("the target exists", url=url, remedy=remedy)


def can_build(target: str) -> bool:
    """Return True if something can be made beside ``target`` and take its place."""
    target = os.path.realpath(target)
    return not os.path.ismount(target) and os.access(os.path.dirname(target), os.W_OK)


def put_in_place(temporary: str, target: str, *, overwrite: bool, durable: bool = True) -> None:
    """Give what lies complete under a temporary name beside ``target`` its name; AlreadyExists unless ``overwrite``.
    What was there is then gone, or under the temporary name, to be removed."""
    if durable:
        make_durable(temporary)
    refuse_taken(target, overwrite)
    with _entries(os.path.dirname(target)) as folder:
        aside = None
        if overwrite:
            aside = _rename(temporary, target)
        else:
            with suppress(OSError):
                os.rmdir(target)  # an empty folder gives way
            try:
                link_new(temporary, target)
            except FileExistsError:
                raise already_exists(target) from None
        if durable:
            sync_folder(folder)
    if aside is not None:
        remove(aside)
    remove_leftovers(target)


def _make_folder(path: str) -> None:
    """Make a folder with those above it, durably."""
    missing = []
    while not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path)
    for path in reversed(missing):
        with _entries(os.path.dirname(path)) as above:
            os.makedirs(path, exist_ok=True)
            sync_folder(above)


def _entries(folder: str) -> AbstractContextManager[int]:
    """Return a descriptor to flush the folder's entries by; -1 of one that may be written to and not read."""
    return open_folder(folder) if os.access(folder, os.R_OK) else nullcontext(-1)


def _rename(temporary: str, target: str) -> str | None:
    """Return one rename. Where a folder is in the way they change places; on systems that cannot, two renames, the
    first one undone should the second fail: the name of what was there is given."""
    while True:  # until no other builder of the target is in between, which each time has done its work
        if not os.path.lexists(target) or not (os.path.isdir(target) or os.path.isdir(temporary)):
            try:
                replace_file(temporary, target)
            except OSError as error:
                if error.errno not in _TAKEN:
                    raise
                continue
            return None
        if exchange(temporary, target):
            return None  # what is now under the temporary name is removed with it
        if os.path.lexists(target):
            return _rename_twice(temporary, target)


def _rename_twice(temporary: str, target: str) -> str:
    aside = sibling(target)
    rename(target, aside)
    try:
        rename(temporary, target)
    except BaseException:
        rename(aside, target)
        raise
    return aside
