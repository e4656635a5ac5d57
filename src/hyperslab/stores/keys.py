"""Which strings are keys, and which lie below which: the one place that decides it, for every kind of store.

And whose an unfinished write is: its temporary name tells the process, and the system whether that one still lives. Its
token is 64 bits: 26 of the machine (of its present boot, and of the namespace that numbers its processes), 22 of the
process, 16 of a counter. A name that another machine made, or an older version by chance alone, tells nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from itertools import count
from typing import Literal

from hyperslab.errors import Invalid
from hyperslab.stores.system import IS_WINDOWS, process_lives

LOCK = ".lock"
"""The name of a lock file; no key has it as a segment."""

UNFINISHED = ".hyperslab-convert"
"""The folder of what is noted of a conversion into a store without renames, while it builds there: as long as it is
there, what else is there is half a dataset, or one whose conversion could not tidy up."""

_TEMPORARY = r"[^/]*\.[0-9a-f]{16}\.tmp"
_SEGMENT = rf"(?!\.(?:\.?|lock|{_TEMPORARY})(?:/|\Z))[^/\\\0\ud800-\udfff]+"

is_key = re.compile(rf"(?![A-Za-z]:){_SEGMENT}(?:/{_SEGMENT})*").fullmatch
"""A match (true) when the text is a key; one call in C, for the paths that are walked once per chunk."""

is_temporary = re.compile(r"\.[^/]*\.([0-9a-f]{16})\.tmp").fullmatch
"""A match when a file or folder name is that of an unfinished write, which may be removed once its writer is gone: the
first group is the token that tells whose it is."""

# Bytes of a name that a temporary one ends with, and the characters that are kept of a longer one.
_LONGEST, _KEPT = 200, 40


def check_key(key: object) -> str:
    """Return the key itself; ``Invalid`` when it could lead out of the store or names a lock or a temporary file.

    Refused: empty segments, ``.`` and ``..``, a leading slash, backslash, NUL, a drive (``C:``), lone surrogates,
    ``.lock``, and ``.<name>.<16 hex digits>.tmp``.
    """
    if not isinstance(key, str) or not is_key(key):
        raise Invalid(
            f"{key!r} is not a key",
            remedy="a key is a/b/c: no empty segment, '.' or '..', no backslash, NUL or drive, no name kept for locks",
        )
    return key


# Names that Windows keeps for devices, whatever the suffix.
_DEVICE = r"(?i:con|prn|aux|nul|com[0-9\u00b9\u00b2\u00b3]|lpt[0-9\u00b9\u00b2\u00b3]|conin\$|conout\$)(?:\.[^/]*)?"
# What it refuses within a name (a colon would write into a stream beside the file), and what it cuts off at the end.
_REFUSED = r"[^/]*(?:[<>:\"|?*\x01-\x1f][^/]*|[. ])"
_has_unfit_name = re.compile(rf"(?:.*/)?(?:{_DEVICE}|{_REFUSED})(?:/.*)?", re.DOTALL).fullmatch


def _is_windows_key(text: str) -> re.Match[str] | None:
    return None if _has_unfit_name(text) else is_key(text)


def _check_windows_key(key: object) -> str:
    text = check_key(key)
    if _has_unfit_name(text):
        message = f"{text!r} has a name that Windows gives no file"
        raise Invalid(message, remedy="choose another name, or keep the dataset in a zip archive (zip://) or a bucket")
    return text


is_file_key = _is_windows_key if IS_WINDOWS else is_key
"""A match when the text is a key, and a file can have its names on this system."""
check_file_key = _check_windows_key if IS_WINDOWS else check_key
"""Return the key itself; ``Invalid`` as :func:`check_key`, and where a file can have no such name on this system."""


def check_file_prefix(prefix: str) -> str:
    """Do as :func:`check_file_key`; ``""`` stands for the whole store."""
    return prefix and check_file_key(prefix)


def check_prefix(prefix: str) -> str:
    """Do as :func:`check_key`; ``""`` stands for the whole store."""
    return prefix and check_key(prefix)


def below(prefix: str) -> str:
    """Return what every key that stands below ``prefix/`` begins with; ``""`` stands for the whole store."""
    return f"{prefix}/" if prefix else ""


def split_names(keys: Iterable[str], prefix: str) -> tuple[list[str], list[str]]:
    """Return what lies right below ``prefix/``, of keys that all do: (keys, sub-prefixes), each sorted."""
    skip = len(below(prefix))
    names: set[str] = set()
    inner: set[str] = set()
    for key in keys:
        name, slash, _ = key[skip:].partition("/")
        (inner if slash else names).add(name)
    return sorted(names), sorted(inner)


def temporary_stem(name: str) -> str:
    """Return what of a name stands in the temporary ones for it."""
    return name if len(name) < 50 else name[:50]


def temporary_name(name: str) -> str:
    """Return a fresh name beside ``name`` for a value that is not yet complete; never longer than a file name may
    be."""
    stem = temporary_stem(name)
    return f".{stem}.{new_token()}.tmp"


PARTIAL = ".partial-"
"""How the temporary name of a whole dataset begins."""


def partial_name(name: str) -> str:
    """Return what the temporary name of a whole dataset ends with, which has the ending of the name."""
    return name if len(os.fsencode(name)) <= _LONGEST else name[-_KEPT:]


# -- whose an unfinished write is ----------------------------------------------------------------------------------


Owner = Literal["alive", "dead", "unknown"]

_PROCESS, _NUMBER = 22, 16
# To take the next number is one step for all threads, with Python's lock or without (itertools of 3.13 and later).
_numbers = count(int.from_bytes(os.urandom(2), "little"))


def new_token() -> str:
    """Return sixteen hex digits that no other process of this machine gives out, and this one only after 65,536
    others."""
    process = os.getpid()
    machine = _machine(process)
    if machine is None or process >> _PROCESS:
        return os.urandom(8).hex()
    number = next(_numbers) % (1 << _NUMBER)
    return f"{machine << _PROCESS + _NUMBER | process << _NUMBER | number:016x}"


def owner_of(token: str) -> Owner:
    """Return what has become of the process that a token is of: ``unknown`` where that cannot be told from here."""
    value = int(token, 16)
    if value >> _PROCESS + _NUMBER != _machine(os.getpid()):
        return "unknown"
    return "alive" if _lives((value >> _NUMBER) % (1 << _PROCESS)) else "dead"


@lru_cache(maxsize=1)
def _machine(process: int) -> int | None:
    """Return the machine's part of a token; None on systems that do not tell. A forked child may have another
    namespace."""
    try:
        with open("/proc/sys/kernel/random/boot_id", "rb") as file:
            boot = file.read()
        space = os.readlink("/proc/self/ns/pid")
    except OSError:
        return None
    return int.from_bytes(sha256(boot + space.encode()).digest()[:8], "little") >> _PROCESS + _NUMBER


def _lives(process: int) -> bool:
    """Return True if there is such a process, and not only its exit status that nobody has fetched yet."""
    try:
        with open(f"/proc/{process}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except (OSError, IndexError):  # it ended, or /proc is mounted with hidepid= and shows nobody else's
        return process_lives(process)


# Seconds after which an unfinished write is taken for one of a dead writer, on whatever machine: a live one takes
# moments.
_ABANDONED = 3600.0


def has_no_writer(name: str, age: float) -> bool:
    """Return True if nobody goes on with an unfinished write of this name: its writer is dead, or it is older than
    moments.
    """
    temporary = is_temporary(name)
    return age > _ABANDONED or (temporary is not None and owner_of(temporary[1]) == "dead")


@dataclass(frozen=True, slots=True)
class Stray:
    """An entry in a folder of a store that is no value.

    ``kind``: ``temporary``, ``dangling-link``, ``circular-link``, ``outside-link``, ``special-file`` or
    ``unusable-name``; ``age``: seconds since it changed; ``target``: what a link names.
    """

    name: str
    kind: str
    age: float
    target: str = ""

    @property
    def is_abandoned(self) -> bool:
        """Return True if it is an unfinished write of a writer that is gone."""
        return self.kind == "temporary" and has_no_writer(self.name, self.age)
