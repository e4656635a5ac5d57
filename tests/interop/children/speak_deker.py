"""Does with deker what each line of standard input says, and tells on a line what came of it. Runs beside deker alone.

A line names an object by its number, what to do with it (:data:`DEEDS`), and with which values; object 0 is the
package. What has no form in JSON stays here, under a new number, until a line says that it is not needed any more.
"""

from __future__ import annotations

import contextlib
import io
import json
import operator
import sys
import warnings
from typing import Any

import deker
from deker_wire import decode, encode

DEEDS = {
    "get": getattr,
    "call": lambda on, name, args, kwargs: (getattr(on, name) if name else on)(*args, **dict(kwargs)),
    "item": operator.getitem,
    "iter": list,
    "str": str,
    "repr": repr,
}


class Kept:
    """Objects under numbers."""

    def __init__(self) -> None:
        self.objects: dict[int, Any] = {0: deker}
        self.newest = 0

    def keep(self, value: Any) -> Any:
        """What to tell of an object that stays here."""
        self.newest += 1
        self.objects[self.newest] = value
        return {"$": "kept", "number": self.newest, "class": type(value).__name__, "calls": callable(value)}

    def found(self, said: Any) -> Any:
        """The object that was told."""
        return self.objects[said["number"]]


def do(kept: Kept, line: dict[str, Any]) -> dict[str, Any]:
    """What a deed tells, or the error that it ended with."""
    for number in line.get("forget", ()):
        kept.objects.pop(number, None)
    values = [decode(each, kept.found) for each in line["with"]]
    try:
        return {"told": encode(DEEDS[line["do"]](kept.objects[line["on"]], *values), kept.keep)}
    except BaseException as error:  # the peer's own words are what is asked for
        return {"error": [each.__name__ for each in type(error).__mro__], "message": str(error)}


def main() -> None:
    """Until standard input ends."""
    warnings.simplefilter("ignore")
    kept, out = Kept(), sys.stdout
    for line in sys.stdin:
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            answer = do(kept, json.loads(line))
        out.write(json.dumps({**answer, "printed": printed.getvalue()}) + "\n")
        out.flush()


if __name__ == "__main__":
    main()
