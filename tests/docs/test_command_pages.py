"""The command line is documented: every command, with help, an example, and each of its options."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import click
import pytest
from pages import ROOT

sys.path.insert(0, str(ROOT / "docs" / "making"))

import usage

from hyperslab.cli import main
from hyperslab.cli.exit_codes import CODES, DEFECT

PAGE = ROOT / "docs" / "cli.md"


@dataclass(frozen=True)
class Page:
    """What mkdocs says of a page: where its source lies."""

    src_path: str

    @property
    def file(self) -> Page:
        """The source, of which nothing else is asked."""
        return self


def commands(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    """Every command below this one with its full name."""
    if not isinstance(command, click.Group):
        yield name, command
        return
    context = click.Context(command)
    for child in command.list_commands(context):
        found = command.get_command(context, child)
        assert found is not None, f"{name} {child} is listed but not there"
        yield from commands(found, f"{name} {child}")


COMMANDS = dict(commands(main, "hyperslab"))


def sections() -> dict[str, str]:
    """Heading -> the part of the page below it; what stands before the first heading has the name ``""``."""
    parts = re.split(r"^## (.+)$", PAGE.read_text(encoding="utf-8"), flags=re.M)
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


@pytest.mark.parametrize("name", COMMANDS)
def test_has_help_with_an_example(name: str) -> None:
    command = COMMANDS[name]
    text = command.get_help(click.Context(command, info_name=name))
    assert command.help, "says nothing of itself"
    assert f"{name} " in text.split("\n", 1)[1] or f"{name}\n" in text.split("\n", 1)[1], "shows no example"


@pytest.mark.parametrize("name", COMMANDS)
def test_stands_on_the_page_with_an_example_and_its_options(name: str) -> None:
    text = sections().get(name, "")
    assert re.search(rf"^```(?:console|bash)\n(?:.*\n)*?(?:\$ )?{re.escape(name)}\b", text, re.M), "no example"
    flags = [flag for option in COMMANDS[name].params if isinstance(option, click.Option) for flag in option.opts]
    assert [flag for flag in flags if flag.startswith("--") and flag not in text + sections()[""]] == []


def test_sections_stand_in_the_order_of_the_commands_and_name_no_other() -> None:
    assert [title for title in sections() if title.startswith("hyperslab ")] == list(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_no_option_is_named_that_is_not_there(name: str) -> None:
    options = [option for option in COMMANDS[name].params if isinstance(option, click.Option)]
    known = {flag for option in options for flag in (*option.opts, *option.secondary_opts)} | {"--help"}
    own = re.sub(r"^\$ (?!hyperslab ).*$", "", sections()[name], flags=re.M)
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", own)) - known == set()


def test_exit_codes_are_those_of_the_program() -> None:
    rows = re.findall(r"^\| (\d+) \|", sections()["Exit codes"], re.M)
    assert {int(row) for row in rows} == {0, 1, DEFECT, *(code for _, code in CODES)}


def test_the_site_shows_the_help_of_each_command_in_its_section() -> None:
    shown = usage.on_page_markdown(PAGE.read_text(encoding="utf-8"), page=Page(usage.PAGE))
    for name in COMMANDS:
        section = shown.split(f"\n## {name}\n")[1].split("\n## ")[0]
        assert f'??? note "All options of `{name}`"' in section
        assert f"    Usage: {name} [OPTIONS]" in section
    assert usage.on_page_markdown("## hyperslab info", page=Page("index.md")) == "## hyperslab info"
