"""Symbolic links of a DEKER collection: made, followed by their names, and made anew after a move.

The peer writes the absolute path of the file, spelled as its client's URI is, and follows that. Here a link is followed
by its name and the rule of :mod:`.folder`, so that a moved or copied collection just works; only what is not found so
is looked for where the link leads.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from stat import S_ISLNK, S_ISREG

from hyperslab.errors import StorageError, Unsupported
from hyperslab.formats.collections.deker.folder import SUFFIXES, Kind, data_path, id_in, sync_removal, with_folder
from hyperslab.stores.files import real_path
from hyperslab.stores.keys import temporary_name
from hyperslab.stores.system import IS_WINDOWS, replace_file


def expected_target(folder: str, kind: Kind, place: str, id: str, *, relative: bool) -> str:
    """Return the text of a sound link of ``id`` in the folder ``place`` of the collection."""
    path = data_path(kind, id)
    return os.path.relpath(path, place) if relative else f"{folder}/{path}"


def put_link(folder: str, kind: Kind, place: str, id: str, *, relative: bool, alone: bool = False) -> None:
    """Make the link of ``id`` in the folder ``place``, or make it anew; ``alone``: in place of all others there."""
    # A link is made beside its name and renamed: who follows it finds the old one or the new one, never none.
    head, name = f"{folder}/{place}", f"{id}{SUFFIXES[kind]}"
    temporary = f"{head}/{temporary_name(name)}"
    target = expected_target(folder, kind, place, id, relative=relative)
    try:
        with_folder(head, lambda: os.symlink(target, temporary))
    except OSError as error:
        if not IS_WINDOWS:
            raise
        remedy = "switch on the developer mode of Windows, or leave layout= out: our own layout has no links"
        raise Unsupported("DEKER's layout, without the right to make symbolic links", remedy=remedy) from error
    try:
        replace_file(temporary, f"{head}/{name}")
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    if alone:
        for other in linked_ids(folder, kind, place):
            if other != id:
                remove_link(folder, kind, place, other)


def relink(folder: str, kind: Kind, *, relative: bool) -> int:
    """Make every link whose file is there anew, where it says anything else; how many did."""
    count = 0
    for place, id in list(places(folder, kind)):
        wanted = expected_target(folder, kind, place, id, relative=relative)
        if os.path.isfile(f"{folder}/{data_path(kind, id)}") and link_text(folder, kind, place, id) != wanted:
            put_link(folder, kind, place, id, relative=relative)
            count += 1
    return count


def link_text(folder: str, kind: Kind, place: str, id: str) -> str | None:
    """Return the text of a link; None for anything else."""
    try:
        return os.readlink(f"{folder}/{place}/{id}{SUFFIXES[kind]}")
    except OSError:
        return None


def remove_link(folder: str, kind: Kind, place: str, id: str, *, durable: bool = False) -> None:
    """Remove a link; one that is gone is fine."""
    with suppress(FileNotFoundError, NotADirectoryError):
        os.unlink(f"{folder}/{place}/{id}{SUFFIXES[kind]}")
    if durable:
        sync_removal(f"{folder}/{place}")


def remove_file(folder: str, kind: Kind, path: str, *, durable: bool = False) -> None:
    """Remove a data file and the folders that it leaves empty; one that is gone is fine."""
    with suppress(FileNotFoundError, NotADirectoryError):
        os.unlink(path)
    prune(folder, os.path.relpath(os.path.dirname(path), folder))
    if durable:
        sync_removal(os.path.dirname(path))


def prune(folder: str, place: str) -> None:
    """Remove the folder ``place`` of the collection and those above it that are empty then, but the outermost."""
    while "/" in place and not place.startswith("../"):
        try:
            os.rmdir(f"{folder}/{place}")
        except FileNotFoundError:
            pass
        except OSError:
            return
        place = os.path.dirname(place)


def linked_ids(folder: str, kind: Kind, place: str) -> list[str]:
    """Return the ids of the links right in a folder of the collection, sorted; none when there is no such folder."""
    if leaves_root(folder, f"{folder}/{place}"):
        return []
    return sorted([id for name in names(f"{folder}/{place}") if (id := id_in(kind, name)) is not None])


def names(path: str) -> list[str]:
    """Return the names in a folder; none when it is missing."""
    try:
        return os.listdir(path)
    except (FileNotFoundError, NotADirectoryError):
        return []


def follow(folder: str, kind: Kind, place: str, id: str) -> str | None:
    """Return the file that the link of ``id`` in the folder ``place`` stands for, None when there is none.

    It is where the id says; else where the link leads, if that is within the collection's root.
    """
    path = f"{folder}/{data_path(kind, id)}"
    if os.path.isfile(path) and not leaves_root(folder, path):
        return path
    real = real_path(f"{folder}/{place}/{id}{os.path.splitext(path)[1]}")
    root = os.path.realpath(os.path.dirname(os.path.dirname(folder)))
    return real if real.startswith(os.path.join(root, "")) and os.path.isfile(real) else None


def plain_file(folder: str, kind: Kind, place: str) -> str | None:
    """Return what :func:`follow` gives for the only link in a folder, without its calls; None where anything is
    unusual: other names in the folder, a symbolic link on the way to it or to the file, no such file."""
    head = f"{folder}/{place}"
    try:
        (name,) = os.listdir(head)
        id = id_in(kind, name)
        if id is None:
            return None
        path = f"{folder}/{data_path(kind, id)}"
        for way in (head, path):
            here = folder
            for part in way[len(folder) + 1 :].split("/"):
                here = f"{here}/{part}"
                mode = os.lstat(here).st_mode
                if S_ISLNK(mode):
                    return None
    except (OSError, ValueError):
        return None
    return path if S_ISREG(mode) else None


def leaves_root(folder: str, path: str) -> bool:
    """Return True if a symbolic link on the way from the collection's folder to a file of it leads out of the root."""
    place = folder
    for part in path[len(folder) + 1 :].split("/"):
        place = f"{place}/{part}"
        try:  # os.path.islink, without its calls: this is done for every part of the way to every tile
            is_link = S_ISLNK(os.lstat(place).st_mode)
        except (OSError, ValueError):
            continue
        if is_link:
            root = os.path.realpath(os.path.dirname(os.path.dirname(folder)))
            return not real_path(path).startswith(os.path.join(root, ""))
    return False


def require_inside(folder: str, path: str) -> str:
    """Return the path of a file of the collection; StorageError when a symbolic link takes it out of the root."""
    if leaves_root(folder, path):
        remedy = "put a copy of its target in place of the link"
        raise StorageError("a symbolic link leads out of the root", url=folder, key=path, remedy=remedy)
    return path


def places(folder: str, kind: Kind, below: str = "") -> Iterator[tuple[str, str]]:
    """Yield every link of the collection: its folder and its id. Folders that vanish meanwhile are passed over."""
    place = below or f"{kind}_symlinks"
    if leaves_root(folder, f"{folder}/{place}"):
        return
    try:
        with os.scandir(f"{folder}/{place}") as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from places(folder, kind, f"{place}/{entry.name}")
        elif (id := id_in(kind, entry.name)) is not None:
            yield place, id
