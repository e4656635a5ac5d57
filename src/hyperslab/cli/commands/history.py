"""``hyperslab history``, ``tag``, ``branch``, ``commit``, ``restore``, ``expire``: the versions of a repository."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict
from typing import Any

import click

from hyperslab import versions
from hyperslab.cli.database_options import parse_age
from hyperslab.cli.options import at_option, complete_place, storage_option, url_argument
from hyperslab.cli.output import echo_rows, json_option, print_json, print_remark, shows_progress
from hyperslab.conversion.pipeline import convert
from hyperslab.errors import Invalid, Unsupported
from hyperslab.formats.opening import has_keys
from hyperslab.integrity.comparison import diff
from hyperslab.model.amounts import counted, size_text
from hyperslab.stores.location import Location
from hyperslab.stores.repositories import MAIN


@click.command("history", epilog="Example: hyperslab history icechunk+file:///data/air --limit 10")
@url_argument
@at_option("the repository, and those that led to it,")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="At most so many, the newest first.")
@storage_option()
@json_option
def history_command(
    url: str, at: str | None, limit: int | None, storage_option: dict[str, object] | None, as_json: bool
) -> None:
    """List the snapshots of the repository at URL, the newest first: id, time (UTC), message, tags and branches."""
    found = versions.history(url, at, limit, storage_options=storage_option)
    if as_json:
        snapshots = [{**asdict(each), "time": each.time.isoformat()} for each in found]
        print_json("history", url=url, snapshots=snapshots)
        return
    for each in found:
        click.echo(str(each))


# -- names of snapshots ------------------------------------------------------------------------------------------------


def _command_of_names(
    kind: str,
    text: str,
    example: str,
    read: Callable[..., dict[str, str]],
    create: Callable[..., str],
    delete: Callable[..., None],
) -> click.Command:
    """Return the command that lists names of a ``kind``, gives and removes them, by the functions of
    :mod:`hyperslab.versions`; ``text`` is its help."""

    @click.command(kind, help=text, epilog=f"Example: {example}")
    @url_argument
    @click.argument("name", required=False)
    @at_option("the repository")
    @click.option("--delete", "is_removed", is_flag=True, help="Remove NAME.")
    @storage_option()
    @json_option
    def command(
        url: str,
        name: str | None,
        at: str | None,
        is_removed: bool,
        storage_option: dict[str, object] | None,
        as_json: bool,
    ) -> None:
        if is_removed and (name is None or at is not None):
            raise Invalid("what is to be removed is not said", url=url, remedy="write URL NAME --delete")
        if name is None and at is not None:
            raise Invalid("a version without a name", url=url, remedy="write URL NAME --at VERSION")
        if name is None:
            names = read(url, storage_options=storage_option)
            if as_json:
                print_json(kind, url=url, names=names)
            else:
                echo_rows(names.items(), lambda some, head: [list(pair) for pair in some], f"no {kind}s")
            return
        snapshot = None
        if is_removed:
            delete(url, name, storage_options=storage_option)
        else:
            snapshot = create(url, name, at, storage_options=storage_option)
        if as_json:
            print_json(kind, url=url, name=name, snapshot=snapshot)
        else:
            done = "was removed" if snapshot is None else f"is the snapshot {snapshot}"
            print_remark(f"{kind} {name} {done}")

    return command


tag_command = _command_of_names(
    "tag",
    """List the tags of the repository at URL, or give the newest snapshot (--at: another) the tag NAME, which stays.

    A name that was removed is not given again.
    """,
    "hyperslab tag icechunk+file:///data/air v1",
    versions.tags,
    versions.create_tag,
    versions.delete_tag,
)

branch_command = _command_of_names(
    "branch",
    """List the branches of the repository at URL, or begin the branch NAME with the newest snapshot (--at: another).

    A branch moves with what is written to it: by the URL with ?at=NAME, or hyperslab commit --branch NAME.
    """,
    "hyperslab branch icechunk+file:///data/air trial --at v1",
    versions.branches,
    versions.create_branch,
    versions.delete_branch,
)


# -- what is committed, restored and removed ---------------------------------------------------------------------------


def _has_dataset(where: Location) -> bool:
    with closing(where.store(read_only=True)) as store:
        return has_keys(store)


@click.command("commit", epilog="Example: hyperslab commit icechunk+file:///data/air air.nc -m 'Corrected January'")
@url_argument
@click.argument("src", shell_complete=complete_place)
@click.option("-m", "--message", required=True, metavar="TEXT", help="What the commit changes, and why.")
@click.option("--branch", default=MAIN, show_default=True, metavar="NAME", help="The branch that is written to.")
@storage_option("--storage-option", "the repository")
@storage_option("--src-option", "SRC")
@json_option
def commit_command(
    url: str,
    src: str,
    message: str,
    branch: str,
    storage_option: dict[str, object] | None,
    src_option: dict[str, object] | None,
    as_json: bool,
) -> None:
    """Make the dataset SRC, of any format, the newest version of the repository at URL, which is made where there is
    none.

    Where nothing differs there is no commit. What is there stays in the history.
    """
    where = Location.of(url, storage_option)
    target: Any = where if branch == MAIN else where.as_of(branch)
    sides = (src_option, None)
    equal = where.repository.exists() and _has_dataset(target) and not diff(src, target, storage_options=sides)
    if not equal:
        convert(
            src,
            target,
            "zarr3",
            overwrite=True,
            message=message,
            progress=shows_progress(as_json),
            storage_options=sides,
        )
    newest = versions.history(url, branch, 1, storage_options=storage_option)[0]
    if as_json:
        print_json("commit", url=url, branch=branch, changed=not equal, snapshot=newest.id, message=newest.message)
    else:
        print_remark("nothing differs: there is no new commit" if equal else str(newest))


@click.command("restore", epilog="Example: hyperslab restore icechunk+file:///data/air v1")
@url_argument
@click.argument("version")
@click.option("--branch", default=MAIN, show_default=True, metavar="NAME", help="The branch that is moved.")
@storage_option()
@json_option
def restore_command(
    url: str, version: str, branch: str, storage_option: dict[str, object] | None, as_json: bool
) -> None:
    """Make VERSION (a time, a tag, a branch or a snapshot) of the repository at URL the newest one again.

    No cells are copied. What came after is in the history no more, and is read by its snapshot, which is said, until
    it expires.
    """
    before = versions.branches(url, storage_options=storage_option).get(branch)
    snapshot = versions.restore(url, version, branch, storage_options=storage_option)
    if as_json:
        print_json("restore", url=url, branch=branch, snapshot=snapshot, before=before)
        return
    print_remark(f"the branch {branch} is the snapshot {snapshot}; it was {before}")


@click.command("expire", epilog="Example: hyperslab expire icechunk+file:///data/air --older-than 90d --dry-run")
@url_argument
@click.option(
    "--older-than", required=True, callback=parse_age, metavar="AGE", help="Committed longer ago: 2w, 90d, 12h, 30m."
)
@click.option("--dry-run", is_flag=True, help="Remove nothing; show which snapshots would go.")
@storage_option()
@json_option
def expire_command(
    url: str, older_than: float, dry_run: bool, storage_option: dict[str, object] | None, as_json: bool
) -> None:
    """Take old snapshots out of the history of the repository at URL, with the chunks that only they hold.

    What a tag names, and the newest snapshot of each branch, stays; what no branch and no tag leads to, such as what a
    restore left behind, goes too. Nothing is asked, so that cron can run it; nobody may be reading what goes. Older
    versions in a collection or in MongoDB are removed by hyperslab db expire.
    """
    where = Location.of(url, storage_option)
    if not where.keeps_versions:
        remedy = "versions in a collection, or in MongoDB, are removed by hyperslab db expire"
        raise Unsupported("this is no repository", url=where.url, remedy=remedy)
    found = versions.expire(url, older_than, dry_run=dry_run, storage_options=storage_option)
    if as_json:
        print_json("expire", url=url, applied=not dry_run, **asdict(found))
        return
    for snapshot in found.snapshots:
        click.echo(snapshot)
    count = counted(len(found.snapshots), "snapshot")
    if found.strays:
        count += f", and {found.strays} that no branch and no tag leads to,"
    if dry_run:
        print_remark(f"nothing was removed: without --dry-run {count} would be")
    else:
        print_remark(f"{count} expired, {size_text(found.nbytes)} are free")
