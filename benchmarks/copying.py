"""A dataset copied to a bucket and back, and synced when one chunk changed, beside s5cmd and rclone; called by hand.

``python -m benchmarks.copying [--s5cmd PATH] [--rclone PATH]``: medians of interleaved rounds upon one S3 server on
this machine, whose own time is in all of them, with the requests of each. Each contender is a process of its own.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import hyperslab as hs

ROUNDS = 3
SIZES = {"1,000 chunks of 64 KiB": (1000, 16 << 10), "32 chunks of 8 MiB": (32, 2 << 20)}
_KEYS = {"access_key_id": "bench", "secret_access_key": "bench", "region": "us-east-1"}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--s5cmd", default=shutil.which("s5cmd"))
    parser.add_argument("--rclone", default=shutil.which("rclone"))
    options = parser.parse_args()
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.counting_s3"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as server, TemporaryDirectory() as name:
        assert server.stdin is not None
        assert server.stdout is not None
        endpoint = f"http://127.0.0.1:{int(server.stdout.readline())}"
        urllib.request.urlopen(urllib.request.Request(f"{endpoint}/bench", method="PUT")).close()
        print("| dataset | deed | program | seconds | requests |\n|---|---|---|---|---|")
        for title, (count, cells) in SIZES.items():
            source = Path(name, str(count))
            values = np.random.default_rng(1).standard_normal((count, cells)).astype("f4")
            with hs.create(source, format="zarr3") as root:
                root.create_array("v", data=values, dims=["n", "x"], chunks=(1, cells), codec="none")
            measure(title, source, endpoint, options, lambda: _count(server))
        server.kill()


def _count(server: subprocess.Popen[str]) -> int:
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write("\n")
    server.stdin.flush()
    return int(server.stdout.readline().split()[0])


def measure(title: str, source: Path, endpoint: str, options: argparse.Namespace, count: Callable[[], int]) -> None:
    """Print the rows of one dataset."""
    found: dict[tuple[str, str], list[tuple[float, int]]] = {}
    chunk = next(each for each in sorted(source.rglob("c/*/*")))
    for turn in range(ROUNDS):
        for program, deeds in programs(source, endpoint, options, turn).items():
            for deed, call in deeds.items():
                if deed == "sync, one chunk changed":
                    old = chunk.read_bytes()
                    chunk.write_bytes(bytes([old[0] ^ 1]) + old[1:])
                before, began = count(), time.perf_counter()
                subprocess.run(call, check=True, stdout=subprocess.DEVNULL, env=_environment(endpoint))
                found.setdefault((deed, program), []).append((time.perf_counter() - began, count() - before - 1))
            shutil.rmtree(source.parent / f"back-{program}")
    for deed in dict.fromkeys(deed for deed, _ in found):
        for (this, program), each in found.items():
            if this == deed:
                seconds = statistics.median(second for second, _ in each)
                print(f"| {title} | {deed} | {program} | {seconds:.2f} | {each[-1][1]} |", flush=True)


def _environment(endpoint: str) -> dict[str, str]:
    secrets = {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench", "AWS_REGION": "us-east-1"}
    rclone = {"RCLONE_CONFIG_S_TYPE": "s3", "RCLONE_CONFIG_S_PROVIDER": "Other", "RCLONE_CONFIG_S_ENV_AUTH": "true"}
    inherited = {name: value for name, value in os.environ.items() if name != "AWS_CA_BUNDLE"}  # rclone takes none
    return {**inherited, **secrets, **rclone, "RCLONE_CONFIG_S_ENDPOINT": endpoint, "S3_ENDPOINT_URL": endpoint}


def programs(source: Path, endpoint: str, options: argparse.Namespace, turn: int) -> dict[str, dict[str, list[str]]]:
    """Return by program the commands that upload, sync and download a dataset; to another place in each turn."""
    ours = [str(Path(sys.executable).with_name("hyperslab"))]
    there = [f"--dst-option={name}={value}" for name, value in {"endpoint": endpoint, **_KEYS}.items()]
    here = [each.replace("--dst-option", "--src-option") for each in there]

    def place(program: str) -> str:
        return f"bench/{program}/{source.name}-{turn}"

    def back(program: str) -> str:
        return str(source.parent / f"back-{program}")

    changed = "sync, one chunk changed"
    found = {
        "hyperslab": {
            "upload": [*ours, "copy", str(source), f"s3://{place('ours')}", *there],
            changed: [*ours, "sync", str(source), f"s3://{place('ours')}", *there],
            "download": [*ours, "copy", f"s3://{place('ours')}", back("hyperslab"), *here],
        }
    }
    if options.s5cmd:
        to = f"s3://{place('s5')}/"
        found["s5cmd"] = {
            "upload": [options.s5cmd, "cp", f"{source}/", to],
            changed: [options.s5cmd, "sync", f"{source}/", to],
            "download": [options.s5cmd, "cp", f"{to}*", f"{back('s5cmd')}/"],
        }
    if options.rclone:
        to, quiet = f"S:{place('rclone')}", ["--s3-no-check-bucket", "--transfers=32", "--checkers=32"]
        found["rclone"] = {
            "upload": [options.rclone, "copy", str(source), to, *quiet],
            changed: [options.rclone, "sync", "--checksum", str(source), to, *quiet],
            "download": [options.rclone, "copy", to, back("rclone"), *quiet],
        }
    return found


if __name__ == "__main__":
    main()
