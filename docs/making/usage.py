"""Below each command of docs/cli.md: its usage and options, as the program itself tells them."""

from __future__ import annotations

import re
from typing import Any

import click

from hyperslab.cli import main

PAGE = "cli.md"
_HEADING = re.compile(r"^## (hyperslab .+)$", re.M)


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Called by mkdocs for every page."""
    if page.file.src_path != PAGE:
        return markdown
    start, *sections = _HEADING.split(markdown)
    whole = [start]
    for name, text in zip(sections[::2], sections[1::2], strict=True):
        whole.append(f"## {name}\n{text.rstrip()}\n\n{folded(name)}\n\n")
    return "".join(whole)


def folded(name: str) -> str:
    """The help of one command, as a block that is unfolded when it is asked for."""
    lines = help_of(name).splitlines()
    body = "\n".join(f"    {line}".rstrip() for line in ["```text", *lines, "```"])
    return f'??? note "All options of `{name}`"\n\n{body}'


def help_of(name: str) -> str:
    """What ``<name> --help`` prints in 80 columns."""
    command: click.Command = main
    context = click.Context(command, info_name="hyperslab", terminal_width=80, max_content_width=80)
    for word in name.split()[1:]:
        assert isinstance(command, click.Group), name
        found = command.get_command(context, word)
        assert found is not None, f"no command is called {name!r}"
        command, context = found, click.Context(found, info_name=word, parent=context, terminal_width=80)
    return command.get_help(context)
