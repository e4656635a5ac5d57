"""A process in the Python of a contender, asked by lines of JSON: ``[name, arguments...]`` is answered by a line."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[1]


class Child:
    """A process that runs a module of ours; it is started when it is first asked, and ends with the ``stack``."""

    def __init__(
        self,
        python: Path,
        module: str,
        arguments: Sequence[str],
        stack: ExitStack,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self._command = [str(python), "-m", module, *arguments]
        self._python = python
        self._variables = os.environ | dict(variables or {})
        self._stack = stack
        self._process: subprocess.Popen[str] | None = None

    def ask(self, what: str, *arguments: Any) -> Any:
        """What it answers; RuntimeError with what went wrong there."""
        process = self._process or self._start()
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("a process without pipes")
        process.stdin.write(f"{json.dumps([what, *arguments])}\n")
        process.stdin.flush()
        line = process.stdout.readline()
        found = json.loads(line) if line else {"error": "the process ended"}
        if "error" in found:
            raise RuntimeError(found["error"])
        return found["answer"]

    def _start(self) -> subprocess.Popen[str]:
        if not self._python.exists():
            raise FileNotFoundError("it needs an environment of its own, which `make bench` makes")
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            self._command,
            stdin=pipe,
            stdout=pipe,
            stderr=subprocess.DEVNULL,
            text=True,
            env=self._variables,
            cwd=_ROOT,
        )
        self._process = self._stack.enter_context(process)
        return process
