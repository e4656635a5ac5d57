"""``hyperslab check`` and ``repair``: every problem of a dataset, and what mends it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict

import click

from hyperslab.cli.options import allow_option, format_option, storage_option, url_argument
from hyperslab.cli.output import json_option, print_json, print_remark, print_verbose, shows_progress
from hyperslab.errors import HyperslabError, Invalid
from hyperslab.formats.rules import FOREIGN
from hyperslab.integrity.mender import repair
from hyperslab.integrity.report import Mend, Report, as_line
from hyperslab.integrity.survey import check
from hyperslab.stores.location import Location, Several

# Kinds of notes that are printed without -v: what lies there and that no other command shows.
_SHOWN_NOTES = frozenset({"not-shown", FOREIGN})


@click.command("check", epilog="Example: hyperslab check air.zarr --deep")
@url_argument
@click.option("--deep", is_flag=True, help="Decode every chunk; else names, lengths, documents and shard indexes.")
@format_option
@storage_option()
@allow_option()
@json_option
def check_command(
    url: str,
    deep: bool,
    format: str | None,
    storage_option: dict[str, object] | None,
    allow_external: tuple[str, ...] | bool,
    as_json: bool,
) -> int:
    """Every problem of the dataset at URL with its place, one a line; nothing when it is sound. Nothing is changed.

    URL may be a pattern in quotes ('archive/*.nc', 'air.zarr/t*'): each that matches is looked at.

    The exit code is 1 when there are problems. What may well be meant (chunks that are not stored) is said with -v,
    what lies in the dataset and is not shown (files that no format knows) always, on stderr.
    """
    places = find_places(url, storage_option)

    def look(place: str) -> Report:
        return check(
            place,
            deep=deep,
            format=format,
            storage_options=storage_option,
            allow_external=allow_external,
            progress=shows_progress(as_json),
        )

    def as_document(report: Report) -> dict[str, object]:
        problems, notes = (
            [{"node": p.node, "kind": p.kind, "message": p.message} for p in some] for some in (report, report.notes)
        )
        part = _part(report)
        return {"url": report.url, **part, "deep": deep, "sound": not report, "problems": problems, "notes": notes}

    def say(report: Report, place: str) -> None:
        for note in report.notes:
            (print_remark if note.kind in _SHOWN_NOTES else print_verbose)(place + as_line(note))
        for problem in report:
            click.echo(place + as_line(problem))

    return _look_at_each("check", places, look, as_document if as_json else None, say)


def find_places(url: str, options: dict[str, object] | None) -> list[str]:
    """Return the place, or those in the file system that match a pattern, as the commands that read join them."""
    where = Location.matching(url, options)
    if not isinstance(where.target, Several):
        return [url]
    return [place.path or place.url for place in where.target.places]


def _look_at_each(
    command: str,
    places: Sequence[str],
    look: Callable[[str], Report],
    as_document: Callable[[Report], dict[str, object]] | None,
    say: Callable[[Report, str], None],
) -> int:
    """Look at each place and print its report, of several behind the place; return 1 if one has problems that are left.

    ``as_document``: what the JSON has of a report, one for each place where there are several. A place that cannot be
    looked at does not keep others from it; its error is raised when all were.
    """
    has_problems = False
    documents: list[dict[str, object]] = []
    errors: list[HyperslabError] = []
    for place in places:
        try:
            report = look(place)
        except HyperslabError as error:
            errors.append(error)
            continue
        has_problems |= any(not (isinstance(problem, Mend) and problem.done) for problem in report)
        if as_document is not None:
            documents.append(as_document(report))
            continue
        _say_part(report, place)
        say(report, "" if len(places) == 1 else f"{place}: ")
    if as_document is not None and len(places) > 1:
        print_json(command, places=documents)
    for document in documents if len(places) == 1 else []:
        print_json(command, **document)
    for earlier in errors[:-1]:
        click.echo(f"error: {earlier}", err=True)
    if errors:
        raise errors[-1]
    return int(has_problems)


def _part(report: Report) -> dict[str, str]:
    """Return the node that was looked at, of the place of a node within a dataset, as JSON has it."""
    return {"node": report.node} if report.node else {}


def _say_part(report: Report, url: str) -> None:
    """Say which dataset was looked at where ``url`` is a place within it."""
    if report.node:
        print_remark(f"/{report.node} is a node of {report.url}: that part of it alone was looked at")
    elif len(report.url) < len(Location.of(url).url):
        print_remark(f"{url} lies within {report.url}: all of that was looked at")


# -- hyperslab repair: what can be mended is mended, once it has been looked at ----------------------------------------


@click.command("repair", epilog="Example: hyperslab repair air.zarr --apply")
@url_argument
@click.option("--apply", is_flag=True, help="Mend; without it only what would be done is shown.")
@click.option("--dry-run", is_flag=True, help="Show only, as without --apply.")
@click.option("--shallow", is_flag=True, help="Leave out chunks that are damaged inside: decode none.")
@click.option("--links", is_flag=True, help="Mend links and references alone, and complete what links say.")
@click.option("--drop-links", is_flag=True, help="Take out links that lead nowhere; else they are only shown.")
@click.option("--drop-foreign", is_flag=True, help="Take out files that no format knows; else they are left alone.")
@click.option("--quarantine", metavar="FOLDER", help="Where what is taken out goes; else beside a local dataset.")
@format_option
@storage_option()
@allow_option()
@json_option
def repair_command(
    url: str,
    apply: bool,
    dry_run: bool,
    shallow: bool,
    links: bool,
    drop_links: bool,
    drop_foreign: bool,
    quarantine: str | None,
    format: str | None,
    storage_option: dict[str, object] | None,
    allow_external: tuple[str, ...] | bool,
    as_json: bool,
) -> int:
    """Show how each problem of the dataset at URL would be mended; with --apply, mend it. Sound cells stay as they are.

    URL may be a pattern in quotes ('archive/*.nc'): each that matches is mended.

    The exit code is 1 while there are problems: all of them without --apply, those that could not be mended with it.
    """
    dry_run = dry_run or not apply
    places = find_places(url, storage_option)
    if quarantine is not None and len(places) > 1:
        raise Invalid("one --quarantine for several datasets", remedy="leave it out: each has its own beside it")

    def look(place: str) -> Report:
        return repair(
            place,
            dry_run=dry_run,
            deep=not shallow,
            links=links,
            drop_links=drop_links,
            drop_foreign=drop_foreign,
            quarantine=quarantine,
            format=format,
            storage_options=storage_option,
            allow_external=allow_external,
            progress=shows_progress(as_json),
        )

    def as_document(report: Report) -> dict[str, object]:
        mends = [{"action": None, "done": False, "remedy": None, **asdict(mend)} for mend in report]
        return {"url": report.url, **_part(report), "applied": not dry_run, "mends": mends}

    def say(report: Report, place: str) -> None:
        for mend in report:
            click.echo(place + as_line(mend))
        if dry_run and any(isinstance(mend, Mend) and mend.action for mend in report):
            print_remark(f"{place}nothing was changed; --apply mends")

    return _look_at_each("repair", places, look, as_document if as_json else None, say)
