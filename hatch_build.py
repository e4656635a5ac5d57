"""Build the engine in C beside the Python code, where a compiler is there: hyperslab works without it, more slowly.
``HYPERSLAB_NATIVE=0``, which turns it off where it runs, leaves it out: such a wheel is for any Python and system."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any
from zlib import crc32

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.tags import sys_tags

SOURCE = "src/hyperslab/chunks/_engine.c"


class EngineHook(BuildHookInterface):
    """Compiles one file by the compiler that made Python, or the system's ``cc``."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Put the engine into the tree, and so into the wheel; say in one line why not."""
        target = Path(self.root, SOURCE).with_suffix(sysconfig.get_config_var("EXT_SUFFIX"))
        reason: str | None = "HYPERSLAB_NATIVE=0"
        if os.environ.get("HYPERSLAB_NATIVE") != "0":
            reason = build(Path(self.root, SOURCE), target) if sys.platform == "linux" else "it is for Linux"
        if reason is not None:
            print(f"hyperslab: the engine in C was not built: {reason}", file=sys.stderr)
            return
        build_data["artifacts"].append(str(target.relative_to(self.root)))
        build_data["pure_python"] = False
        build_data["tag"] = _wheel_tag()


def build(source: Path, target: Path) -> str | None:
    """Compile ``source`` into ``target``; return what went wrong."""
    reason = "there is no C compiler"
    known = f"-DSOURCE_SUM={crc32(source.read_bytes())}"  # hyperslab.chunks.engine compares it with its own source
    include = f"-I{sysconfig.get_paths()['include']}"
    for compiler in dict.fromkeys((sysconfig.get_config_var("CC") or "cc", "cc")):
        options = ["-O2", "-fPIC", "-shared", include, known, str(source), "-o", str(target)]
        try:
            done = subprocess.run([*shlex.split(compiler), *options], capture_output=True, text=True, check=False)
        except OSError:
            continue
        if not done.returncode:
            return None
        lines = done.stderr.strip().splitlines() or ["it does not compile"]
        reason = next((line for line in lines if "error" in line), lines[-1])  # the first says what is missing
    return reason


def _wheel_tag() -> str:
    """Return the tag of a wheel for this Python that names the C library which the engine is linked with
    (``manylinux_2_36_x86_64``): package indexes refuse what hatchling would infer, ``linux_x86_64``."""
    tags = list(sys_tags())
    return str(next((tag for tag in tags if tag.platform.startswith(("manylinux_", "musllinux_"))), tags[0]))
