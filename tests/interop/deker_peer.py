"""Real deker as if it were imported: a child process in the Python that has it, and objects that stand for its own."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from deker_wire import decode, encode
from readers import CHILDREN, ENVIRONMENTS

PYTHON: str | None = json.loads(os.environ.get(ENVIRONMENTS, "{}")).get("deker")
"""The Python that has deker; None when there is none."""


class TheirError(Exception):
    """What deker raised: the name of the class, those of its bases, what it says."""

    def __init__(self, names: list[str], message: str) -> None:
        super().__init__(f"{names[0]}: {message}")
        self.name, self.bases = names[0], names[1:]


class Peer:
    """One process of deker; ``api`` is its package."""

    def __init__(self, python: str, log: Path) -> None:
        self._log = log.open("w")
        command = [python, "-I", str(CHILDREN / "start.py"), "speak_deker.py"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self._log}
        self.process = subprocess.Popen(command, text=True, **pipes)
        self._methods: set[tuple[str, str]] = set()
        self.forgotten: list[int] = []
        self.printed = ""
        self.api: Any = Remote(self, 0, "module")

    def ask(self, deed: str, on: int, *values: Any) -> Any:
        """What comes of a deed; TheirError. ``printed`` has what was printed meanwhile."""
        self.tell(deed, on, *values)
        return self.hear()

    def tell(self, deed: str, on: int, *values: Any) -> None:
        """Say what to do, and do not wait."""
        forgotten, self.forgotten = self.forgotten, []
        line = {"do": deed, "on": on, "with": [encode(each, _number) for each in values], "forget": forgotten}
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(line) + "\n")
        self.process.stdin.flush()

    def hear(self) -> Any:
        """What came of the deed that was told before."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"deker ended: {Path(self._log.name).read_text()}"
        answer = json.loads(line)
        self.printed = answer["printed"]
        if "error" in answer:
            raise TheirError(answer["error"], answer["message"])
        return decode(answer["told"], self._stand_in)

    def is_done(self) -> bool:
        """Whether it has said what came of the deed that was told before."""
        return bool(select.select([self.process.stdout], [], [], 0)[0])

    def attribute(self, remote: Remote, name: str) -> Any:
        """An attribute; of a method, asked for once per class, what calls it."""
        if (remote._kind, name) not in self._methods:
            value = self.ask("get", remote._number, name)
            if not (isinstance(value, Remote) and value._calls):
                return value
            self._methods.add((remote._kind, name))
        return lambda *args, **kwargs: self.ask("call", remote._number, name, list(args), kwargs)

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(30)
        self.process.stdout.close()
        self._log.close()

    def kill(self) -> None:
        """End the process where it stands."""
        self.process.kill()
        with contextlib.suppress(BrokenPipeError):
            self.close()

    def _stand_in(self, said: Any) -> Remote:
        return Remote(self, said["number"], said["class"], said["calls"])


class Remote:
    """Stands for an object of deker's: its attributes, methods and items are asked for where it is."""

    def __init__(self, peer: Peer, number: int, kind: str, calls: bool = False) -> None:
        self._peer, self._number, self._kind, self._calls = peer, number, kind, calls

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self._peer.attribute(self, name)

    def __getitem__(self, key: Any) -> Any:
        return self._peer.ask("item", self._number, key)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._peer.ask("iter", self._number))

    def __str__(self) -> str:
        return str(self._peer.ask("str", self._number))

    def __repr__(self) -> str:
        return str(self._peer.ask("repr", self._number))

    def __enter__(self) -> Any:
        self._peer.ask("call", self._number, "__enter__", [], {})
        return self

    def __exit__(self, *_: object) -> None:
        self._peer.ask("call", self._number, "__exit__", [None, None, None], {})

    def __bool__(self) -> bool:
        return True

    def __del__(self) -> None:
        self._peer.forgotten.append(self._number)


def _number(value: Remote) -> Any:
    return {"$": "kept", "number": value._number}


@contextlib.contextmanager
def speaking(folder: Path) -> Iterator[Peer]:
    """A process of deker for as long as the block lasts."""
    assert PYTHON is not None
    peer = Peer(PYTHON, folder / "deker.log")
    try:
        yield peer
    finally:
        peer.close()
