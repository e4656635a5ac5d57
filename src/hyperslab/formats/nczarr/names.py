"""Names as NCZarr spells them: qualified names ``/g1/x``, and the dimensions that nobody named."""

from __future__ import annotations

import re
from typing import Any

from hyperslab.errors import Invalid

_OF_NETCDF = re.compile(r"[A-Za-z0-9_\u0080-\U0010ffff]([^\x00-\x1f\x7f/]*[^\x00-\x20\x7f/])?")
_LONGEST = 256  # bytes
_BITS = re.compile(r"([<>|=]?)([iuf])(16|32|64)")
_ANONYMOUS = re.compile(r"(?:_anonymous|Anonymous|_Anonymous_Dim_|_zdim_|\.zdim_)(\d+)")


def qualified(group: str, name: str) -> str:
    """The qualified name of something declared in a group (requirement R23): the root's is ``/x``."""
    if not name or "/" in name:
        raise Invalid(f"{name!r} is no name of a dimension or type", remedy="a name is not empty and holds no slash")
    return f"/{group}/{name}" if group else f"/{name}"


def require_netcdf(name: str, node: str) -> None:
    """Invalid for the name of a node or dimension that netcdf-c cannot open a dataset for."""
    if not _OF_NETCDF.fullmatch(name) or len(name.encode()) > _LONGEST:
        remedy = "begin with a letter, digit or _, without control characters or a space at the end; or use zarr2"
        raise Invalid(f"{name!r} is no name in netCDF", node=node, remedy=remedy)


def place_of(fqn: str) -> tuple[str, str]:
    """The path of the group, and the name, of a qualified name; a leading slash may be missing."""
    group, _, name = fqn.lstrip("/").rpartition("/")
    return group, name


def anonymous(size: int, *, draft: bool) -> str:
    """The name of the dimension, declared in the root, of axes of this length without a name (R25)."""
    return f"_anonymous{size}" if draft else f"_Anonymous_Dim_{size}"


def is_anonymous(name: str, size: int) -> bool:
    """Return whether some generation made this name up for an axis of this length."""
    found = _ANONYMOUS.fullmatch(name)
    return found is not None and int(found[1]) == size


def in_bytes(name: Any) -> Any:
    """Return a dtype whose size is counted in bits, as the draft's table has them, in NumPy's spelling (R28)."""
    bits = _BITS.fullmatch(name) if isinstance(name, str) else None
    return f"{bits[1]}{bits[2]}{int(bits[3]) // 8}" if bits else name
