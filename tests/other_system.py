"""Windows or macOS for hyperslab alone, on Linux: what its modules see of the system is what they would see there.

``install("windows")`` before hyperslab is imported; as a plugin of pytest (``-p other_system``) the variable
``HYPERSLAB_TESTS_SYSTEM`` says which. The standard library, other libraries and the tests go on seeing Linux, for each
look at a name is answered by who asks: a module of hyperslab or another one. Files behave as on Windows where hyperslab
calls the system itself: one that is open is neither replaced nor removed, a folder is not opened, only what was opened
for writing is flushed, and all are opened as binary. ``msvcrt`` locks by the kernel's locks of open files.
"""

from __future__ import annotations

import builtins
import errno
import fcntl
import mmap
import os
import re
import signal
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import ModuleType
from typing import Any

# Kept from before they are shown otherwise.
_frame, _OFD_SETLK = sys._getframe, fcntl.F_OFD_SETLK
VARIABLE = "HYPERSLAB_TESTS_SYSTEM"
MODULES = {"fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "readline", "syslog", "posix", "uvloop"}
# Names that Python's documentation says a module has on Windows; all others that Linux has are missing there.
IN_OS = (
    "DirEntry F_OK O_APPEND O_CREAT O_EXCL O_RDONLY O_RDWR O_TRUNC O_WRONLY PathLike R_OK SEEK_CUR SEEK_END "
    "SEEK_SET W_OK X_OK abort access altsep chdir chmod close closerange cpu_count curdir defpath device_encoding "
    "devnull dup dup2 environ error extsep fdopen fsdecode fsencode fspath fstat fsync ftruncate "
    "get_terminal_size getcwd getcwdb getenv getlogin getpid getppid isatty kill linesep link listdir lseek lstat "
    "makedirs mkdir name open pardir path pathsep pipe popen putenv read readlink remove removedirs rename "
    "renames replace rmdir scandir sep set_inheritable stat stat_result strerror supports_dir_fd "
    "supports_effective_ids supports_fd supports_follow_symlinks symlink system terminal_size times truncate "
    "umask unlink unsetenv urandom utime waitpid walk write"
)
IN_SIGNAL = (
    "Handlers SIGABRT SIGFPE SIGILL SIGINT SIGSEGV SIGTERM SIG_DFL SIG_IGN Signals default_int_handler getsignal "
    "raise_signal set_wakeup_fd signal strsignal valid_signals"
)
# MAP_ANONYMOUS and the like; ACCESS_READ and mmap itself are everywhere.
IN_MMAP = ["ACCESS_COPY", "ACCESS_DEFAULT", "ACCESS_READ", "ACCESS_WRITE", "ALLOCATIONGRANULARITY", "PAGESIZE", "mmap"]
NOT_ON_MACOS = {
    *("copy_file_range", "memfd_create", "sched_getaffinity", "posix_fadvise", "posix_fallocate", "O_DIRECT", "splice"),
    *("getxattr", "setxattr", "listxattr", "fdatasync", "O_TMPFILE", "O_PATH", "eventfd"),
}
# What Windows has as O_BINARY; in open(2) of Linux on 64 bits this bit means nothing (O_LARGEFILE).
O_BINARY = 0x8000
# The names of devices, with any suffix, and what no name may have or end with.
RESERVED = re.compile(r"(?i)(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?|.*[<>:\"|?*\x01-\x1f].*|.*[. ]", re.DOTALL)


def install(system: str) -> None:
    """Have hyperslab see Windows (``windows``) or macOS (``macos``) from now on."""
    assert not any(name.partition(".")[0] == "hyperslab" for name in sys.modules), "hyperslab has seen Linux already"
    os.environ.update({VARIABLE: system, "HYPERSLAB_NATIVE": "0"})
    real = _copy(os)
    if system == "windows":
        _show(sys, {"platform": "win32"}, None)
        calls = {call.__name__: call for call in (*_calls_on_files(real), *_calls_on_names(real))}
        sets = {"supports_fd": {calls["stat"]}, "supports_dir_fd": set(), "supports_follow_symlinks": {calls["stat"]}}
        _show(os, {**calls, **sets, "name": "nt", "O_BINARY": O_BINARY, "remove": calls["unlink"]}, {*IN_OS.split()})
        _show(signal, {}, {*IN_SIGNAL.split()})
        _show(mmap, {}, {*IN_MMAP})
    else:
        _show(sys, {"platform": "darwin"}, None)
        _show(os, {}, set(dir(os)) - NOT_ON_MACOS)
        _show(fcntl, {}, {name for name in dir(fcntl) if "OFD" not in name and "LEASE" not in name})
    _hide_modules(MODULES if system == "windows" else set(), {"msvcrt": _make_msvcrt(real)})
    _hide_proc(real)


def _copy(module: ModuleType) -> Any:
    """Return a module with the same names, which shows all of them to anybody."""
    copy = ModuleType(module.__name__)
    copy.__dict__.update(module.__dict__)
    return copy


def _asks(depth: int) -> bool:
    """Return True if a module of hyperslab asks, so many calls above the caller."""
    try:
        name: str = _frame(depth + 1).f_globals.get("__name__") or ""
    except ValueError:  # the interpreter itself, which ends
        return False
    return name.partition(".")[0] == "hyperslab"


def _show(module: ModuleType, instead: dict[str, Any], allowed: set[str] | None) -> None:
    """Have a module show hyperslab only the names that are ``allowed`` (None: all), some of them with other values."""

    class Shown(ModuleType):
        def __getattribute__(self, name: str) -> Any:
            if not (name.startswith("__") or not _asks(1)):
                if name in instead:
                    return instead[name]
                if allowed is not None and name not in allowed:
                    raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
            return super().__getattribute__(name)

    module.__class__ = Shown


def _hide_modules(names: set[str], others: dict[str, ModuleType]) -> None:
    """Let hyperslab import none of these modules, and others that Linux has not."""
    real = builtins.__import__

    def instead(name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        if (name in others or name.partition(".")[0] in names) and _asks(1):
            if name in others:
                return others[name]
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return real(name, globals, locals, fromlist, level)

    builtins.__import__ = instead


def _hide_proc(real: Any) -> None:
    """Let hyperslab open nothing below /proc and /sys, which neither system has."""
    opened = builtins.open

    def open(file: Any, *arguments: Any, **options: Any) -> Any:
        if _asks(1) and str(file).startswith(("/proc/", "/sys/")):
            raise FileNotFoundError(errno.ENOENT, real.strerror(errno.ENOENT), file)
        return opened(file, *arguments, **options)

    builtins.open = open


def _opened(real: Any, path: Any) -> bool:
    """Return True if this process has the file open, or, of a folder, one below it."""
    place = real.path.realpath(real.fspath(path))
    place = place if isinstance(place, str) else real.fsdecode(place)
    with real.scandir("/proc/self/fd") as entries:
        for entry in entries:
            with suppress(OSError):
                target = real.readlink(entry.path)
                if target == place or target.startswith(f"{place}/"):
                    return True
    return False


def _denied(real: Any, path: Any) -> PermissionError:
    return PermissionError(errno.EACCES, real.strerror(errno.EACCES), path)


def _calls_on_files(real: Any) -> Iterator[Callable[..., Any]]:
    """Yield the calls of ``os`` on files and processes that Windows answers otherwise."""

    def open(path: Any, flags: int, mode: int = 0o777) -> int:
        name = real.path.basename(real.fspath(path))
        assert flags & O_BINARY, f"{path} is opened as text, which changes the ends of lines"
        if RESERVED.fullmatch(name if isinstance(name, str) else real.fsdecode(name)):
            raise OSError(errno.EINVAL, real.strerror(errno.EINVAL), path)
        if real.path.isdir(path):
            raise _denied(real, path)
        return int(real.open(path, flags, mode))

    def stat(path: Any, *, dir_fd: None = None, follow_symlinks: bool = True) -> Any:
        return real.stat(path, follow_symlinks=follow_symlinks)

    def fsync(descriptor: int) -> None:
        if fcntl.fcntl(descriptor, fcntl.F_GETFL) & real.O_ACCMODE == real.O_RDONLY:
            raise OSError(errno.EBADF, real.strerror(errno.EBADF))
        real.fsync(descriptor)

    def kill(process: int, number: int) -> None:
        raise AssertionError("os.kill(..., 0) sends Ctrl-C on Windows, and any other number ends the process")

    yield from (open, stat, fsync, kill)


def _calls_on_names(real: Any) -> Iterator[Callable[..., Any]]:
    """Yield the calls of ``os`` on names of files that Windows answers otherwise."""

    def unlink(path: Any) -> None:
        if _opened(real, path) and not real.path.islink(path):
            raise _denied(real, path)
        real.unlink(path)

    def replace(source: Any, target: Any) -> None:
        if _opened(real, source) or _opened(real, target) or real.path.isdir(target):
            raise _denied(real, source)
        real.replace(source, target)

    def rename(source: Any, target: Any) -> None:
        if real.path.isdir(source):
            if real.path.lexists(target):
                raise FileExistsError(errno.EEXIST, real.strerror(errno.EEXIST), source)
            replace(source, target)
            return
        if _opened(real, source):
            raise _denied(real, source)
        real.link(source, target)  # fails, as Windows does, for a name that is taken
        real.unlink(source)

    def mkdir(path: Any, mode: int = 0o777) -> None:
        name = real.path.basename(str(path).rstrip("/"))
        if RESERVED.fullmatch(name):
            raise OSError(errno.EINVAL, real.strerror(errno.EINVAL), path)
        real.mkdir(path, mode)

    def link(source: Any, target: Any, *, follow_symlinks: bool = True) -> None:
        if not follow_symlinks:
            raise NotImplementedError("link: follow_symlinks unavailable on this platform")
        real.link(source, target)

    def symlink(source: Any, target: Any, target_is_directory: bool = False) -> None:
        raise OSError(errno.EPERM, "A required privilege is not held by the client", source)

    yield from (unlink, replace, rename, mkdir, link, symlink)


def _make_msvcrt(real: Any) -> ModuleType:
    """Return ``msvcrt``, whose locks are those of bytes of an open file from its position on."""
    module = ModuleType("msvcrt")
    module.LK_UNLCK, module.LK_LOCK, module.LK_NBLCK = 0, 1, 2  # type: ignore[attr-defined]

    def locking(descriptor: int, mode: int, count: int) -> None:
        start = real.lseek(descriptor, 0, real.SEEK_CUR)
        assert count > 0 and start + count < 1 << 31, "a range of its C library has 31 bits"
        kind = fcntl.F_UNLCK if mode == 0 else fcntl.F_WRLCK
        fcntl.fcntl(descriptor, _OFD_SETLK, struct.pack("hhqqi4x", kind, real.SEEK_SET, start, count, 0))

    module.locking = locking  # type: ignore[attr-defined]
    return module


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    """Leave out what is about Linux, where this module is a plugin of pytest."""
    left_out = [item for item in items if item.get_closest_marker("linux")]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if not item.get_closest_marker("linux")]


if os.environ.get(VARIABLE) and "hyperslab" not in sys.modules:
    install(os.environ[VARIABLE])
