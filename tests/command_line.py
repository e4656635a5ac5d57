"""The command line in this process: what a command ends with, and what it prints."""

from __future__ import annotations

import json
from inspect import signature
from typing import Any

from click import testing
from click.testing import Result

from hyperslab.cli import main

_MAY_MIX = "mix_stderr" in signature(testing.CliRunner).parameters  # click before 8.2, which then has no stderr


class CliRunner(testing.CliRunner):
    """Runs commands; their results have both streams, and both in ``output``, with every click."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**({"mix_stderr": False} if _MAY_MIX else {}), **options)

    def invoke(self, *args: Any, **options: Any) -> Result:
        """Run a command."""
        result = super().invoke(*args, **options)
        return _BothStreams(**vars(result)) if _MAY_MIX else result


class _BothStreams(Result):
    @property
    def output(self) -> str:
        """Return what was printed to stdout, then what was printed to stderr."""
        return self.stdout + self.stderr


def run(*arguments: object) -> Result:
    """Run a command."""
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def document(*arguments: object) -> Any:
    """Run a command that finds nothing wrong, or problems; return its JSON."""
    result = run(*arguments, "--json")
    assert result.exit_code in (0, 1), result.output
    return json.loads(result.stdout)
