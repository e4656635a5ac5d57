"""A power cut after any call of a durable write over several tiles, on a model of the medium.

The model knows what was flushed: a file's bytes by fsync of the file, a folder's entries by fsync of the folder (a
rename between two folders by that of either, for file systems keep it whole). Two media are built after each call: of
what was flushed alone, and of all entries with the bytes that were flushed, so that a file that was not is empty.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

MODEL = '''
import os, shutil, sys, threading
sys.path.insert(0, sys.argv[1])
from hyperslab.stores.directory import DirectoryStore

PLACE, COPY = os.path.join(sys.argv[2], "x"), os.path.join(sys.argv[2], "copy")
system = {each: getattr(os, each) for each in ("fsync", "replace", "rename", "unlink", "rmdir", "mkdir", "open")}


class Medium:
    def __init__(self):
        self.contents, self.entries, self.moves, self.kept = {}, {}, [], []
        self.lock, self.busy = threading.RLock(), False
        for folder, _, files in os.walk(PLACE):
            self.flush_folder(folder)
            for name in files:
                self.flush_file(os.path.join(folder, name))

    def flush_folder(self, path):
        number = os.stat(path).st_ino
        with os.scandir(path) as found:
            self.entries[number] = {entry.name: (entry.inode(), entry.is_dir()) for entry in found}
        for move in [move for move in self.moves if number in move[1:3]]:
            self.moves.remove(move)
            inode, source, target, old, new = move
            if self.entries.get(source, {}).get(old, (None,))[0] == inode:
                del self.entries[source][old]
            self.entries.setdefault(target, {})[new] = (inode, False)

    def flush_file(self, path):
        with open(path, "rb") as file:
            self.contents[os.fstat(file.fileno()).st_ino] = file.read()

    def keep(self, path):
        """No other file gets the number of this one."""
        if os.path.isfile(path):
            self.kept.append(system["open"](path, os.O_RDONLY))

    def before(self, name, arguments):
        if name in ("unlink", "replace"):
            self.keep(arguments[-1])
        if name == "replace":
            (source, old), (target, new) = map(os.path.split, arguments)
            if source != target:
                numbers = [os.stat(path).st_ino for path in (arguments[0], source, target)]
                return (*numbers, old, new)

    def after(self, name, arguments, noted, result):
        if name == "fsync":
            path = os.readlink(f"/proc/self/fd/{arguments[0]}")
            (self.flush_folder if os.path.isdir(path) else self.flush_file)(path)
        elif noted is not None:
            self.moves.append(noted)

    def build(self, flushed_alone):
        shutil.rmtree(COPY, ignore_errors=True)
        os.mkdir(COPY)
        self.build_folder(os.stat(PLACE).st_ino, PLACE, COPY, flushed_alone)

    def build_folder(self, number, path, target, flushed_alone):
        if flushed_alone:
            entries = self.entries.get(number, {})
        else:
            with os.scandir(path) as found:
                entries = {entry.name: (entry.inode(), entry.is_dir()) for entry in found}
        for name, (inode, is_folder) in entries.items():
            inner = os.path.join(target, name)
            if is_folder:
                os.mkdir(inner)
                self.build_folder(inode, os.path.join(path, name), inner, flushed_alone)
            else:
                with open(inner, "wb") as file:
                    file.write(self.contents.get(inode, b""))

'''
CHILD = (
    MODEL
    + """
import numpy as np
from tiled import aside, made, opened

OLD = np.arange(1, 65, dtype="i4").reshape(8, 8)


def watched(medium, check):
    def guard(name, real):
        def call(*arguments, **options):
            if medium.busy:
                return real(*arguments, **options)
            with medium.lock:
                noted = medium.before(name, arguments)
                result = real(*arguments, **options)
                medium.after(name, arguments, noted, result)
                medium.busy = True
                try:
                    check()
                finally:
                    medium.busy = False
                return result
        return call
    for name, real in system.items():
        if name != "open":
            setattr(os, name, guard(name, real))


def whole(array):
    array[...] = -OLD


def cleared(array):
    array[:, :6] = 0


def one(array):
    array[0, 7] = 99


changes = {"whole": whole, "cleared": cleared}[sys.argv[3]]
made(DirectoryStore(PLACE))[...] = OLD
new, last = OLD.copy(), OLD.copy()
changes(new)
changes(last)
one(last)
medium, stage, seen = Medium(), 0, set()


def check():
    allowed = {0: (OLD, new), 1: (new,), 2: (new, last), 3: (last,)}[stage]
    for flushed_alone in (True, False):
        medium.build(flushed_alone)
        store = DirectoryStore(COPY)
        found = opened(store)[...]
        which = [number for number, cells in enumerate(allowed) if (found == cells).all()]
        assert which, (stage, flushed_alone, found, sorted(store.list()))
        seen.add((stage, flushed_alone, which[0]))
        array = opened(store, lock_timeout=1.0)
        array[4:, :] = 5
        assert (opened(store)[4:] == 5).all() and not aside(store)
        assert (opened(store)[:4] == found[:4]).all()


watched(medium, check)
array = opened(DirectoryStore(PLACE), workers=1, durable=True)
for change in (changes, one):
    change(array)
    stage += 1
    medium.busy = True
    check()
    medium.busy = False
    stage += 1
assert {(0, True, 0), (0, True, 1), (0, False, 0), (0, False, 1)} <= seen, seen
print(len(seen))
"""
)


def test_a_power_cut_after_any_call(tmp_path: Path) -> None:
    """Old or new at any time; what was acknowledged is there, also when one of the tiles is written again."""
    tests = str(Path(__file__).parents[1])
    for change in ("whole", "cleared"):
        command = [sys.executable, "-c", CHILD, tests, str(tmp_path / change), change]
        (tmp_path / change).mkdir()
        child = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert child.returncode == 0, child.stderr[-3000:]
