"""Markdown pages as programs: their fenced blocks in order, and how each is run."""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

from command_line import CliRunner
from hyperslab.cli import main

ROOT = Path(__file__).parents[2]
_FENCE = re.compile(r"^(?P<fence>`{3,})(?P<language>\w*)[^\n]*\n(?P<body>.*?)^(?P=fence)[ \t]*$", re.M | re.S)
_NO_RUN = re.compile(r"<!-- no-run: (?P<reason>[^>]*?) ?-->\s*\Z")
_OURS = re.compile(
    r"""
    (?P<words>hyperslab[ ](?:'[^']*'|[^|<>;&$`*?~('])*?)            # asks nothing of a shell outside of quotes
    (?:[ ]\|\|[ ]test[ ]\$\?[ ]=[ ](?P<code>\d+)|[ ]>[ ](?P<file>[\w.]+))?  # but how it ends, or where it goes
""",
    re.VERBOSE,
)
_BARE_NO_RUN = re.compile(r"<!-- no-run:?\s*-->")


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, text, first line, and why it is not run (None: it is)."""

    language: str
    text: str
    line: int
    skipped: str | None
    output: str | None = None


def blocks(page: str) -> Iterator[Block]:
    """The blocks of a page. A ``text`` block right after a Python block is what that one prints."""
    fences = list(_FENCE.finditer(page))
    for fence, following in zip_longest(fences, fences[1:]):
        skipped = _NO_RUN.search(page[: fence.start()])
        between = page[fence.end() : following.start()] if following else "-"
        shown = following["body"] if following and following["language"] == "text" and not between.strip() else None
        line = page.count("\n", 0, fence.start()) + 1
        reason = skipped["reason"].strip() if skipped else None
        yield Block(fence["language"], fence["body"], line, reason, shown)


def unexplained(page: str) -> list[str]:
    """Every ``no-run`` mark that gives no reason."""
    return _BARE_NO_RUN.findall(page)


@dataclass
class Run:
    """One page being run in a folder: its Python blocks share a namespace, its commands a shell's environment."""

    page: str
    folder: Path
    namespace: dict[str, Any] = field(default_factory=lambda: {"__name__": "__page__"})

    def block(self, block: Block) -> None:
        """Run one block and compare what it prints with what the page shows, where it shows anything."""
        if block.skipped is not None:
            return
        match block.language:
            case "python":
                self._python(block)
            case "bash":
                self._shell(block.text, block)
            case "console":
                for command, shown in sessions(block.text):
                    ours = _OURS.fullmatch(command)
                    printed = self._hyperslab(ours, block) if ours else self._shell(command, block)
                    if shown.strip():
                        self._compare(printed, shown, block)

    def _python(self, block: Block) -> None:
        code = compile("\n" * block.line + block.text, self.page, "exec")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, self.namespace)
        if block.output is not None:
            self._compare(printed.getvalue(), block.output, block)

    def _hyperslab(self, command: re.Match[str], block: Block) -> str:
        """Run a command of ours in this process: most of the time of a page would go into starting new ones."""
        words = shlex.split(command["words"].replace("\\\n", " "))[1:]
        answer = CliRunner(env={"NO_COLOR": "1", "COLUMNS": "100"}).invoke(main, words, prog_name="hyperslab")
        assert answer.exit_code == int(command["code"] or 0), f"{self.page}:{block.line}: {command[0]}\n{answer.output}"
        if command["file"]:
            (self.folder / command["file"]).write_text(answer.stdout, encoding="utf-8")
            return ""
        return answer.stdout

    def _shell(self, command: str, block: Block) -> str:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        answer = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=self.folder,
            env=os.environ | {"PATH": path, "NO_COLOR": "1", "COLUMNS": "100"},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert answer.returncode == 0, f"{self.page}:{block.line}: {command}\n{answer.stdout}{answer.stderr}"
        return answer.stdout

    def _compare(self, printed: str, shown: str, block: Block) -> None:
        flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        same = doctest.OutputChecker().check_output(shown, printed, flags)
        assert same, f"{self.page}:{block.line} shows\n{shown}\nbut it prints\n{printed}"


def sessions(text: str) -> Iterator[tuple[str, str]]:
    """``(command, output)`` pairs of a ``console`` block: commands behind ``$ ``, continued by a backslash."""
    command: list[str] = []
    output: list[str] = []
    for line in text.splitlines():
        if command and command[-1].endswith("\\"):
            command.append(line)
        elif line.startswith("$ "):
            if command:
                yield "\n".join(command), "".join(f"{shown}\n" for shown in output)
            command, output = [line[2:]], []
        else:
            output.append(line)
    if command:
        yield "\n".join(command), "".join(f"{shown}\n" for shown in output)
