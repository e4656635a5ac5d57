"""The site as it is built: its pages, where their links lead, and a server that a browser measures them from."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import Any
from urllib.parse import unquote, urldefrag, urlsplit

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).parent / "measure_site.js"
FETCHED = {"script": "src", "img": "src", "iframe": "src", "link": "href"}
"""What a browser fetches by itself; ``canonical`` and the like are only said."""
SAID = {"canonical", "next", "prev"}


def build(target: Path) -> None:
    """The site, in ``target``; a warning is an error."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(target)]
    answer = subprocess.run(
        command, cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True
    )
    assert answer.returncode == 0, answer.stderr


class Page(HTMLParser):
    """One page: the names that links may lead to, where its own lead, and what it fetches."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Called by the parser."""
        given = {name: value or "" for name, value in attrs}
        self.anchors.update(given[name] for name in ("id", "name") if name in given)
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag in FETCHED and FETCHED[tag] in given and given.get("rel") not in SAID:
            self.fetched.append(given[FETCHED[tag]])


def pages(site: Path) -> dict[Path, Page]:
    """Every page of the site."""
    return {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}


def lost(site: Path) -> list[str]:
    """Links to files or anchors of the site that are not there, and those that begin at a server's root."""
    known = pages(site)
    found = []
    for path, page in known.items():
        if path.name == "404.html":  # is served at every address, so that its links begin at the root
            continue
        for link in page.links + page.fetched:
            if urlsplit(link).scheme:
                continue
            place, anchor = urldefrag(link)
            target = (path.parent / unquote(place)).resolve() if place else path
            there = target.is_file() and (not anchor or target not in known or unquote(anchor) in known[target].anchors)
            if not there:
                found.append(f"{path.relative_to(site)}: {link}")
    return found


class _Measuring(SimpleHTTPRequestHandler):
    """Serves the site, the page that measures it, and takes what that has found."""

    def __init__(self, *args: Any, found: Queue[Any], **options: Any) -> None:
        self.found = found
        super().__init__(*args, **options)

    def do_GET(self) -> None:
        """The measuring page and the list of pages; everything else is a file of the site."""
        site = Path(self.directory)
        match urlsplit(self.path).path:
            case "/measuring.html":
                self._answer("text/html", f"<!doctype html><body><script>{SCRIPT.read_text(encoding='utf-8')}</script>")
            case "/pages.json":
                names = [path.relative_to(site).as_posix() for path in sorted(site.rglob("*.html"))]
                self._answer("application/json", json.dumps([name for name in names if name != "404.html"]))
            case _:
                super().do_GET()

    def do_POST(self) -> None:
        """What was measured."""
        self.found.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self._answer("text/plain", "")

    def _answer(self, kind: str, text: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is said of each request."""


@contextmanager
def served(site: Path) -> Iterator[tuple[str, Queue[dict[str, Any]]]]:
    """The address of a server of the site, and what its measuring page will have found."""
    found: Queue[dict[str, Any]] = Queue()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Measuring, directory=str(site), found=found)) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", found
        finally:
            server.shutdown()
            thread.join()
