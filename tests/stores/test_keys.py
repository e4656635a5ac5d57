"""Whose an unfinished write is, as another user sees it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from hyperslab.stores.keys import new_token, owner_of

_AS_NOBODY = """
import os, sys
from hyperslab.stores.keys import owner_of
os.setgroups([]), os.setgid(65534), os.setuid(65534)
print(owner_of(sys.argv[1]))
"""


@pytest.mark.linux
def test_a_process_that_proc_hides_lives() -> None:
    token = new_token()
    hidden = ["unshare", "-m", "sh", "-c", 'mount -t proc -o hidepid=2 proc /proc && exec "$@"', "sh"]
    found = subprocess.run([*hidden, sys.executable, "-c", _AS_NOBODY, token], capture_output=True, text=True)
    if found.returncode:
        pytest.skip("mounts need a superuser")
    assert found.stdout.strip() == owner_of(token) == "alive"
