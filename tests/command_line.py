"""The command line in this process: what a command ends with, and what it prints."""

from __future__ import annotations

import json
from typing import Any

from click.testing import CliRunner, Result

from hyperslab.cli import main


def run(*arguments: object) -> Result:
    """Run a command."""
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def document(*arguments: object) -> Any:
    """Run a command that finds nothing wrong, or problems; return its JSON."""
    result = run(*arguments, "--json")
    assert result.exit_code in (0, 1), result.output
    return json.loads(result.stdout)
