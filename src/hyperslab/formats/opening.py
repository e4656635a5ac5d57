"""Open and make datasets: what a mode asks for, what is in the way, what replaces what, and the options of a format.

The modes: ``r`` reads; ``r+`` changes what is there; ``a`` does so too, and makes what is not there; ``w`` replaces;
``x`` makes, and raises AlreadyExists where something is. The steps, for ``open``, ``create`` and every format:

1. :func:`choose_format` decides ``a``, raises NotFound or AlreadyExists, and finds out which format lies at the place.
   What is no dataset is never replaced.
2. A format checks its options (``check_...``) and opens. Another writer may have come since, so it looks again
   (:func:`has_keys`).
3. In a file system ``w`` puts a new dataset in the old one's place by a rename (:func:`replace_folder`).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import fields, replace
from typing import Literal

from hyperslab.chunks.settings import Settings
from hyperslab.errors import FormatError, Invalid, NotFound, ReadOnly, SchemaError, Unsupported
from hyperslab.formats import SCHEMES, detect, format_for_new, get_format, names
from hyperslab.formats.base import Format, Mode, Moment
from hyperslab.formats.signatures import (
    DOCUMENT_3,
    array_around,
    document_error,
    file_above,
    is_unfinished,
    unknown_format_error,
)
from hyperslab.model.guessing import nearest
from hyperslab.stores.base import Store
from hyperslab.stores.building import already_exists, building, can_build
from hyperslab.stores.location import REMOTE, REPOSITORIES, Location, Probe, Several
from hyperslab.stores.repositories import parse_version

UserMode = Literal["r", "r+", "a", "w", "x"]
MODES = ("r", "r+", "a", "w", "x")

# -- modes ------------------------------------------------------------------------------------------------------------


def check_mode(mode: str) -> None:
    """Raise Invalid for a mode that there is not."""
    if mode not in MODES:
        raise Invalid(f"mode {mode!r}", remedy=f"a mode is one of {', '.join(MODES)}")


FormatChoice = tuple[Format, Mode, Probe]
"""The format to open with, the mode with ``a`` decided, and what looked at the place to find out."""


def choose_format(where: Location, mode: UserMode, name: str | None) -> FormatChoice:
    """Return the format to open with, the mode with ``a`` decided, and what looked at the place to find out.

    ``name``: of the format, None where it is to be found out. NotFound, AlreadyExists, FormatError; of an older version
    ReadOnly unless it is to be read, Unsupported where the format keeps none.
    """
    if mode != "r":
        refuse_moment(where)
    if mode in ("r", "r+") or (mode == "a" and is_occupied(where)):
        probe = probe_place(where, mode)
        found = get_format(name) if name else detect_format(probe)
        if where.moment is not None:
            check_moment(where, found)
        return found, ("r" if mode == "r" else "r+"), probe
    occupied = is_occupied(where)
    if not occupied:
        check_room(where)
    if mode == "x" and occupied:
        raise already_exists(where.url)
    if occupied:
        check_replaceable(where)
    return get_format(name or format_for_new(where.url)), ("w" if occupied or mode == "w" else "x"), Probe(where)


def locate_version(where: Location, at: Moment | None) -> Location:
    """Return the place of the version of a dataset that was the present one at a moment; the place itself for None.
    Invalid for what is no moment, and where the URL says one. In a repository it may be a tag, a branch or a snapshot,
    too."""
    if at is None:
        return where
    if where.keeps_versions:
        return where.as_of(parse_version(at))
    from hyperslab.model.schemas.dimensions import as_moment  # on use, which is rare: 4 ms

    try:
        moment = as_moment(at)
    except SchemaError:
        remedy = "write 2024-01-31 or 2024-01-31T12:00"
        raise Invalid(f"at={at!r} is no moment", url=where.url, remedy=remedy) from None
    return where.as_of(moment)


def check_moment(where: Location, format: Format) -> None:
    """Raise Unsupported where an older version is named of a format that keeps none."""
    if where.moment is not None and not (where.keeps_versions or format.traits.keeps_versions):
        message = f"format {format.name} keeps no versions"
        raise Unsupported(message, url=where.url, remedy="leave at= (--at) out")


def refuse_moment(where: Location) -> None:
    """Raise ReadOnly for an older version, which is never changed. Of a repository its store does: the version may be a
    branch."""
    if where.moment is not None and not where.keeps_versions:
        remedy = "leave at= out, or open it with mode='r'; a copy of the version may be changed"
        raise ReadOnly("an older version is only read", url=where.url, remedy=remedy)


def probe_place(where: Location, mode: UserMode = "r") -> Probe:
    """Return a probe of a place where something is, which has read nothing yet. NotFound, which names what else to open
    with where ``mode`` changes."""
    if where.scheme == "file":  # one look at the system instead of two
        try:
            return Probe(where, is_file=stat.S_ISREG(os.stat(where.target).st_mode))
        except (OSError, ValueError):
            raise nothing_at(where, mode) from None
    if not where.exists():
        raise nothing_at(where, mode)
    return Probe(where)


def detect_format(probe: Probe, fallback: Callable[[Probe], Format | None] | None = None) -> Format:
    """Return the format that lies at a place. NotFound, FormatError.

    ``fallback``: returns the format of what no format recognises, a damaged dataset for one.
    """
    where = probe.where
    if DOCUMENT_3 in where.url and where.name == DOCUMENT_3 and (document := document_error(where)) is not None:
        raise document  # a file of that ending may be one of references
    found = detect(probe) or (None if fallback is None else fallback(probe))
    if found is None and where.path is None and not is_occupied(where):  # a bucket tells only when it is listed
        raise nothing_at(where)
    if found is None:
        raise unknown_format_error(probe, names())
    return found


# -- what is there ----------------------------------------------------------------------------------------------------


def is_occupied(where: Location) -> bool:
    """Return True where something is; an empty folder or store is free."""
    if where.scheme in SCHEMES:
        return get_format(SCHEMES[where.scheme]).is_taken(where)
    if not where.exists() or where.is_file():
        return where.exists()
    try:
        return has_keys(where.store(read_only=True))
    except Unsupported:  # a web server that lists nothing
        return False


def has_keys(store: Store) -> bool:
    """Return True where a store holds anything. Unsupported where it cannot be listed."""
    return any(map(len, store.list_dir("")))


def check_free(where: Location, *, overwrite: bool) -> None:
    """Raise AlreadyExists where something is, unless ``overwrite``; FormatError for what is never replaced, ReadOnly
    for an older version."""
    refuse_moment(where)
    if is_occupied(where):
        if not overwrite:
            raise already_exists(where.url)
        check_replaceable(where)
    else:
        check_room(where)


def check_replaceable(where: Location) -> None:
    """Raise FormatError for a folder or bucket that an overwrite would empty, and that is no dataset: it may hold
    anything, other datasets too. What one file is, is what its name says."""
    if where.is_file() or is_unfinished(where):
        return
    probe = Probe(where)
    if detect_format(probe).is_bare(probe):
        remedy = "name one of them, or another place; a folder that is to go is removed by hand"
        raise FormatError("this is no dataset, but a folder that holds some", url=where.url, remedy=remedy)


def check_room(where: Location) -> None:
    """Raise NotFound or Invalid for a place below a file, or within an array, where nothing can be made."""
    if (file := file_above(where)) is not None:
        raise _below_file(where, file)
    if where.path is not None and (array := array_around(where)) is not None:
        message = f"this lies within the array {array.url}, which holds no other nodes"
        raise Invalid(message, url=where.url, remedy="choose a place beside it")


def _below_file(where: Location, file: str) -> NotFound:
    node = os.path.relpath(where.path or file, file).replace(os.sep, "/")
    return NotFound(f"{file} is a file, and no folder", url=where.url, remedy=f"open it with path={node!r}")


def nothing_at(where: Location, mode: UserMode = "r") -> NotFound:
    """Return the error for a place where nothing is, of several for the first that is missing; ``mode``: what it was
    opened with."""
    if isinstance(where.target, Several):
        missing = next((place for place in where.target.places if not place.exists()), None)
        if missing is not None:
            return nothing_at(missing, mode)
    if (file := file_above(where)) is not None:
        return _below_file(where, file)
    if where.scheme in REMOTE and "*" in where.url.partition("?")[0]:
        remedy = "give a list of URLs: patterns are of the file system alone"
    elif where.scheme in ("http", "https"):  # most of them list nothing, and on none is anything made
        remedy = "check the spelling: it takes the URL of a dataset or of a node in one, not that of a folder of some"
    elif "/~" in where.url and where.scheme == "file":
        remedy = "write the home folder out, os.path.expanduser(...) does: '~' is a word of the shell, without quotes"
    elif where.scheme == "file" and "*" in where.url and mode == "r":
        remedy = "patterns join datasets that are read; here name one, in a loop of the shell each"
    else:
        remedy = "check the spelling" + (", or make it with mode='a'" if mode != "r" else "")
    return NotFound("there is nothing", url=where.url, remedy=remedy)


def replace_folder(
    where: Location,
    make: Callable[[str], object],
    *,
    durable: bool,
    around: AbstractContextManager[None] | None = None,
) -> bool:
    """Make a dataset beside the local folder at ``where`` and put it in its place; False where that cannot be done.

    ``make`` gets the path of the new one; ``around`` is entered while it takes its place. Until the rename readers see
    the old dataset, whole.
    """
    if where.scheme != "file" or not where.exists() or not can_build(where.target):
        return False
    with building(where.target, overwrite=True, durable=durable, around=around) as temporary:
        make(temporary)
    return True


# -- options of a format ----------------------------------------------------------------------------------------------


_COMMON_OPTIONS = ("mode", "format", "path", "storage_options", "at", *(field.name for field in fields(Settings)))
"""What ``open`` takes for every format."""


def check_option_names(format: Format, options: Iterable[str], url: str) -> None:
    """Raise Invalid for the name of an option that the format does not have."""
    known = format.options
    for name in options:
        if name not in known:
            *first, last = known or ("none",)
            there_are = f"there are {', '.join(first)} and {last}" if first else f"there is {last}"
            remedy = nearest(name, (*known, *_COMMON_OPTIONS)) or there_are
            raise Invalid(f"format {format.name} has no option {name!r}", url=url, remedy=remedy)


def allow_places(where: Location, options: Mapping[str, object]) -> Location:
    """Return a place whose chunks may lie elsewhere with the places that ``allow_external`` allows, which its store
    looks at; any other as it is."""
    allowed = options.get("allow_external")
    if isinstance(where.target, Several):
        places = tuple(allow_places(place, options) for place in where.target.places)
        return replace(where, target=replace(where.target, places=places))
    if not allowed or where.scheme not in _LEAD_ELSEWHERE:
        return where
    return replace(where, options={**where.options, "allow_external": allowed})


_LEAD_ELSEWHERE = ("reference", *REPOSITORIES)
"""The schemes of places whose chunks may lie elsewhere."""


def options_of_format(format: Format, where: Location, options: Mapping[str, object]) -> dict[str, object]:
    """Return the options of a format, without what only :func:`allow_places` takes. Invalid for the name of one that it
    does not have."""
    places = where.target.places if isinstance(where.target, Several) else (where,)
    taken = "allow_external" not in format.options and any(place.scheme in _LEAD_ELSEWHERE for place in places)
    found = {name: value for name, value in options.items() if not taken or name != "allow_external"}
    check_option_names(format, found, where.url)
    return found


def check_choices(options: object, choices: Mapping[str, Sequence[object]]) -> None:
    """Raise Invalid for an attribute of ``options`` that is none of its choices.

    None among the choices is the default, which nobody asks for by name.
    """
    for name, known in choices.items():
        value = getattr(options, name)
        if value not in known:
            shown = ", ".join(repr(choice) for choice in known if choice is not None)
            raise Invalid(f"{name}={value!r}", remedy=f"choose one of {shown}")


def check_bool(name: str, value: object) -> None:
    """Raise Invalid for what is neither true nor false."""
    if not isinstance(value, bool):
        raise Invalid(f"{name}={value!r}", remedy=f"it is true or false ({name}:=true on the command line)")
