"""``hyperslab serve``: datasets of any format as Zarr v3 over HTTP, until Ctrl-C."""

from __future__ import annotations

import os
import sys
import tempfile
import webbrowser
from contextlib import suppress
from html import escape
from pathlib import Path

import click

from hyperslab.cli.options import complete_place, storage_option
from hyperslab.cli.output import json_option, print_json, print_remark
from hyperslab.web.server import DataServer, serve

_TOKEN_VARIABLE = "HYPERSLAB_TOKEN"


@click.command("serve", epilog="Example: hyperslab serve air.zarr air.nc")
@click.argument("places", nargs=-1, required=True, metavar="PLACE...", shell_complete=complete_place)
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Where it listens: this machine alone, or another."
)
@click.option("--port", default=0, show_default=True, help="The port; 0 is any free one.")
@click.option("--open", "opens", is_flag=True, help="Show the explorer in the browser.")
@click.option("--token", help=f"What readers have to know: random unless given (or ${_TOKEN_VARIABLE}); '' for none.")
@click.option("--allow-origin", multiple=True, metavar="URL", help="A site whose pages may read, or '*'; repeatable.")
@storage_option()
@json_option
def serve_command(
    places: tuple[str, ...],
    host: str,
    port: int,
    opens: bool,
    token: str | None,
    allow_origin: tuple[str, ...],
    storage_option: dict[str, object] | None,
    as_json: bool,
) -> None:
    """Show the datasets at each PLACE, a file, folder or URL, in the browser, and give them out as Zarr v3 over HTTP,
    until Ctrl-C.

    A folder of datasets is looked into when somebody looks. Nothing can be written.
    """
    token = os.environ.get(_TOKEN_VARIABLE) if token is None else token
    with (
        suppress(KeyboardInterrupt),
        serve(
            *places, host=host, port=port, token=token, allow_origin=allow_origin, storage_options=storage_option
        ) as server,
    ):
        _print(server, as_json=as_json)
        if not opens:
            server.wait()
            return
        with tempfile.TemporaryDirectory(prefix="hyperslab-") as folder:
            if not webbrowser.open(write_redirect(folder, server.url)):
                print_remark("no browser could be started: open the address yourself")
            server.wait()


def write_redirect(folder: str, url: str) -> str:
    """Write a page into a folder of this user that leads on to ``url``, and return its address: what a browser is
    started with every user of the machine can see, and the token is in ``url``."""
    file = Path(folder, "open.html")
    address = escape(url, quote=True)
    lines = (
        "<!doctype html><meta charset=utf-8><title>hyperslab</title><meta name=referrer content=no-referrer>",
        f'<meta http-equiv=refresh content="0; url={address}"><a href="{address}">hyperslab</a>',
    )
    file.write_text("\n".join(lines), encoding="utf-8")
    return file.as_uri()


def _print(server: DataServer, *, as_json: bool) -> None:
    if as_json:
        print_json("serve", url=server.url, token=server.token, places=server.zarr_urls)
    else:
        click.echo(f"serving at {server.url}")
        for name, url in server.zarr_urls.items():
            click.echo(f"  {name}: {url}")
        print_remark("Ctrl-C ends it")
    sys.stdout.flush()
