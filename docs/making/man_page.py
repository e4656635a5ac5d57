"""Make ``docs/man/hyperslab.1`` of the commands; ``make packages`` calls it before it builds."""

from __future__ import annotations

from pathlib import Path

import click

from hyperslab.cli import main

PAGE = Path(__file__).parents[1] / "man" / "hyperslab.1"

COMPLETION = {
    "bash, in ~/.bashrc": 'eval "$(_HYPERSLAB_COMPLETE=bash_source hyperslab)"',
    "zsh, in ~/.zshrc, behind compinit": 'eval "$(_HYPERSLAB_COMPLETE=zsh_source hyperslab)"',
    "fish, in ~/.config/fish/completions/hyperslab.fish": "_HYPERSLAB_COMPLETE=fish_source hyperslab | source",
}


def render_page() -> str:
    """Return the page in the language of man(7)."""
    context = click.Context(main, info_name="hyperslab")
    lines = ['.TH HYPERSLAB 1 "" "hyperslab" "User Commands"', ".SH NAME"]
    lines += ["hyperslab \\- large labelled N\\-dimensional arrays in any format", ".SH SYNOPSIS"]
    lines += [".B hyperslab", "COMMAND [OPTIONS] ...", ".SH DESCRIPTION", escape(main.help or ""), ".SH COMMANDS"]
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        assert command is not None
        lines += render_command(command, click.Context(command, info_name=name, parent=context))
    lines += [".SH COMPLETION", "In a shell, the line of its kind:"]
    for shell, line in COMPLETION.items():
        lines += [".TP", shell, escape(line)]
    lines += [".SH SEE ALSO", "Each command has its own", ".B \\-\\-help", "with an example."]
    return "\n".join(lines) + "\n"


def render_command(command: click.Command, context: click.Context) -> list[str]:
    """Return the lines of a command, and of those in it."""
    usage = " ".join(command.collect_usage_pieces(context))
    lines = [f".SS {escape(context.command_path)} {escape(usage)}"]
    for paragraph in (command.help or "").replace("\b", "").split("\n\n"):
        lines += [".PP", escape(" ".join(paragraph.split()))]
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None and parameter.name not in ("debug", "quiet", "verbose", "help"):
            lines += [".TP", f".B {escape(record[0])}", escape(record[1])]
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            lines += render_command(inner, click.Context(inner, info_name=name, parent=context))
    return lines


def escape(text: str) -> str:
    """Return text as roff prints it: no escapes, dashes that can be copied, no line that is taken for a request."""
    text = " ".join(text.split()).replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{text}" if text[:1] in (".", "'") else text


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(render_page(), encoding="utf-8")
