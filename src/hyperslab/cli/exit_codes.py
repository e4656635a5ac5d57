"""How the command line fails: one line on stderr with a hint, and an exit code by the kind of error.

====  =========================================================
code  meaning
====  =========================================================
0     done
1     problems were found (``check``, ``repair``, ``diff``), or damage was left out (``convert --skip-damaged``)
2     usage, or an argument that makes no sense here
3     not found
4     conflict: the target exists, or a lock is held
5     corrupt or incomplete data
6     no permission, or read-only
7     storage or network
8     unsupported by this format, or an extra is not installed
9     out of memory
70    a defect of hyperslab itself
130   interrupted
141   the reader of stdout went away
====  =========================================================
"""

from __future__ import annotations

import importlib
import logging
import os
import sys
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from io import TextIOWrapper
from typing import Any, NoReturn

import click
from click.shell_completion import CompletionItem

from hyperslab import errors
from hyperslab.cli.start import importing, start_no_threads

CODES: tuple[tuple[type[BaseException], int], ...] = (
    (errors.NotFound, 3),
    (errors.AlreadyExists, 4),
    (errors.Conflict, 4),
    (errors.FormatError, 5),
    (errors.CorruptChunk, 5),
    (errors.MissingChunks, 5),
    (errors.TilesFailed, 5),
    (errors.ReadOnly, 6),
    (errors.WrongCredentials, 6),
    (errors.Unsupported, 8),
    (errors.MemoryLimit, 9),
    (errors.StorageError, 7),
    (errors.Invalid, 2),
    (KeyboardInterrupt, 130),
    (click.Abort, 130),
    (BrokenPipeError, 141),
    (PermissionError, 6),
    (FileNotFoundError, 3),
    (FileExistsError, 4),
    (MemoryError, 9),
    (OSError, 7),
    (ModuleNotFoundError, 8),
)
DEFECT = 70
_TYPED = {
    ", or make it with mode='x'": "",  # no command does where nothing is
    ", or make it with mode='a'": "",
    "open it with path=": "name that file, with PATH (or --path) ",
    ", or make one with mode='a'": "",
    'sel(..., method="nearest")': "--nearest",
    "seconds of at least 0, or a timedelta": "seconds of at least 0",
    "join with packing='decoded'": "give --packing decoded (convert has it, and writes one dataset of them)",
    "give format=; there are": "give --format (to info, check or repair); there are",
}
"""Words of remedies for callers in Python, with the words for users of the command line."""


_LEAST_ALIKE = 0.7
"""How alike an option is that may have been meant: click's own 0.6 takes ``--compressor`` for ``--memory``."""
_OF_ONE_SOURCE = ("convert", "aggregate", "repack", "unpack", "virtual", "info", "stats", "check", "repair")
"""Commands whose source may be a pattern, which a shell makes several words of where it is not in quotes."""


def exit_code(error: BaseException) -> int:
    """Return the code of the first kind in the table that the error is; that of an interrupt for what it became while a
    module was imported."""
    code = next((code for kind, code in CODES if isinstance(error, kind)), DEFECT)
    return 130 if code == DEFECT and _came_of_interrupt(error) else code


def _came_of_interrupt(error: BaseException) -> bool:
    """Return True for an error that was raised from an interrupt, as Python does of one within a class that is made."""
    found: BaseException | None = error
    while found is not None and not isinstance(found, KeyboardInterrupt):
        found = found.__cause__ or found.__context__
    return found is not None


@dataclass
class Verbosity:
    """The options that every command takes: ``--debug``, ``-q``, ``-V``."""

    debug: bool = False
    quiet: bool = False
    verbose: int = 0


def _remember(context: click.Context, option: click.Parameter, value: object) -> None:
    if value and option.name is not None:
        manner = context.ensure_object(Verbosity)
        setattr(manner, option.name, value)
        level = logging.WARNING - 10 * manner.verbose
        logging.basicConfig(stream=sys.stderr, format="%(name)s: %(message)s")
        logging.getLogger("hyperslab").setLevel(logging.ERROR if manner.quiet else max(level, logging.DEBUG))


def verbosity_options(taken: Collection[str] = ()) -> list[click.Option]:
    """Return the options that every command takes; those of a command that has ``taken`` ``-v`` go without it: there it
    names variables, as in ncks."""
    shared: dict[str, Any] = {"expose_value": False, "callback": _remember}
    more = ["-V", "--verbose"] if "-v" in taken else ["-V", "-v", "--verbose"]
    return [
        click.Option(["--debug"], is_flag=True, help="Show the traceback of an error.", **shared),
        click.Option(["-q", "--quiet"], is_flag=True, help="Say nothing on stderr but errors.", **shared),
        click.Option(more, count=True, help="Say more on stderr; twice for everything.", **shared),
    ]


def show_help_without(arguments: Sequence[str], context: click.Context) -> None:
    """Print the help of commands to stderr and end by 2, if none of them is named; click before 8.2 would end by 0."""
    if not arguments and not context.resilient_parsing:
        click.echo(context.get_help(), err=True, color=context.color)
        context.exit(2)


class Commands(click.Group):
    """Commands by name, each imported when it is called; errors become exit codes.

    ``commands``: what each does. ``files``: the module of ``hyperslab.cli.commands`` that has it, where it is not named
    like the command.
    """

    def __init__(self, *args: Any, commands: Mapping[str, str], files: Mapping[str, str], **options: Any) -> None:
        super().__init__(*args, **options)
        self.summaries = dict(commands)
        self.files = dict(files)
        self.params.extend(verbosity_options())

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names, in the order of the table."""
        return list(self.summaries)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Return the arguments that are left; without any, print the help as what is wrong."""
        show_help_without(args, ctx)
        return super().parse_args(ctx, args)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of a command, and return it."""
        if cmd_name not in self.summaries:
            return None
        with importing():
            module = importlib.import_module(f"hyperslab.cli.commands.{self.files.get(cmd_name, cmd_name)}")
        command: click.Command = getattr(module, f"{cmd_name}_command")
        if not any(option.name == "debug" for option in command.params):
            command.params.extend(verbosity_options([name for option in command.params for name in option.opts]))
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that is named first; one that is not there is answered with the nearest that is."""
        if args and args[0] not in self.summaries and not args[0].startswith("-"):
            near = get_close_matches(args[0], [*self.summaries, "--help", "--version"], 1)
            ctx.fail(f"no command {args[0]!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the commands and options that begin so, without importing the commands."""
        commands = [
            CompletionItem(name, help=text) for name, text in self.summaries.items() if name.startswith(incomplete)
        ]
        return commands + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table of commands, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self.summaries.items()))

    def within(self, arguments: Sequence[str]) -> int:
        """Run a command for another one: return what it ends with, raise its errors."""
        result = super().main(list(arguments), prog_name="hyperslab", standalone_mode=False, obj=Verbosity())
        return result if isinstance(result, int) else 0

    def main(self, *args: object, **extra: Any) -> NoReturn:
        """Run, and exit with the code."""
        start_no_threads()
        if "_HYPERSLAB_COMPLETE" in os.environ:  # the script of a shell asks
            from hyperslab.cli.shells import add_shells

            add_shells()
        manner = Verbosity()
        # text in a file may hold what no encoding has, such as half a surrogate
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
        sys.exit(_run(partial(super().main, *args, **{**extra, "standalone_mode": False, "obj": manner}), manner))


def _run(run: Callable[[], object], manner: Verbosity) -> int:
    """Return the exit code of what is run, after its error is printed."""
    try:
        result = run()
        sys.stdout.flush()
    except click.ClickException as error:
        click.echo(_line(_of_click(error)), err=True)
        return error.exit_code
    except SystemExit as end:  # click's way out when words for a shell were printed, or the reader of stdout is gone
        return 0 if end.code == 0 else exit_code(BrokenPipeError())
    except (Exception, KeyboardInterrupt) as error:
        if manner.debug:
            traceback.print_exc()
        code = exit_code(error)
        text = str(error) or type(error).__name__
        if code == 130:
            text = "interrupted"
        elif code == DEFECT:
            text = f"internal error: {type(error).__name__}: {error}; --debug shows where"
        else:
            for python, typed in _TYPED.items():
                text = text.replace(python, typed)
        click.echo(_line(text), err=True)
        return code
    return result if isinstance(result, int) else 0


# Options of other programs that no spelling leads to ours from.
_MEANT = {"--to": "--format"}


def _of_click(error: click.ClickException) -> str:
    """Return what is printed of a usage error: what may have been meant, else how the command is written."""
    if isinstance(error, click.NoSuchOption):
        meant = _MEANT.get(error.option_name)
        if meant is not None and error.ctx is not None and any(meant in one.opts for one in error.ctx.command.params):
            return f"no option {error.option_name!r}; did you mean {meant!r}?"
    if isinstance(error, click.NoSuchOption) and error.possibilities:
        near = get_close_matches(error.option_name, error.possibilities, 1, _LEAST_ALIKE)
        if near:
            return f"no option {error.option_name!r}; did you mean {near[0]!r}?"
        error = click.NoSuchOption(error.option_name, ctx=error.ctx)
    said = " ".join(error.format_message().split()).rstrip(".").replace(". Did", "; did")
    text = said[:1].lower() + said[1:]
    context = error.ctx if isinstance(error, click.UsageError) else None
    if text.endswith("?"):
        return text
    if context is None:
        return f"{text}; see --help of the command"
    if context.command.name in _OF_ONE_SOURCE and "extra argument" in text:
        return f"{text}; several sources are one pattern in quotes: 'day_*.nc'"
    usage = " ".join([context.command_path, *context.command.collect_usage_pieces(context)])
    return f"{text}; write {usage}, or see its --help"


def _line(text: str) -> str:
    colour = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    return f"{click.style('error:', fg='red') if colour else 'error:'} {text}"
