"""What a process does that :class:`benchmarks.children.Child` asks. Runs in any peer's Python."""

from __future__ import annotations

import gc
import json
import logging
import sys
import warnings
from typing import Any


def answer(child: Any) -> None:
    """Call the method of ``child`` that each line of the input names, and print what it gives, a line of JSON each."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        gc.disable()  # as for what is timed in the process of the benchmarks
        try:
            found = {"answer": getattr(child, name)(*arguments)}
        except Exception as error:
            found = {"error": f"{type(error).__name__}: {error}"}
        gc.enable()
        print(json.dumps(found), flush=True)
