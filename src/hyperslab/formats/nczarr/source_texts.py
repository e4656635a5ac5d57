"""How the members of a JSON document are spelled in it: netcdf-c writes text that looks like JSON without quotes."""

from __future__ import annotations

import json
import re

from hyperslab.formats.documents import check_limits

_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{}\[\],:]|[^\s{}\[\],:"]++', re.DOTALL)


def source_texts(data: bytes) -> dict[str, str]:
    """The raw text of each member of the object in ``data``; of a damaged document as many as can be told.

    Takes what :func:`~hyperslab.formats.documents.mend_json` takes (rule 3.9). Of a name that occurs twice the last
    counts.
    """
    check_limits(data)
    text = data.decode("utf-8-sig", "replace")
    found: dict[str, str] = {}
    depth, name, start, end, before = 0, None, -1, 0, ""
    for match in _TOKEN.finditer(text):
        token = match.group()
        if depth == 1 and token in (",", "}"):
            if name is not None and start >= 0:
                found[name] = text[start:end]
            name, start = None, -1
        elif depth == 1 and name is None and token == ":":
            name = _name(before)
        elif depth == 1 and name is not None and start < 0:
            start = match.start()
        depth += (token in ("{", "[")) - (token in ("}", "]"))
        end, before = match.end(), token
        if depth == 0:
            break
    return found


def _name(token: str) -> str | None:
    try:
        name = json.loads(token)
    except ValueError:
        return None
    return name if isinstance(name, str) else None
