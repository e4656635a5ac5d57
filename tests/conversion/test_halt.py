"""The first error stops all threads, and is the one that is raised when none is at work any more."""

from __future__ import annotations

import threading

import pytest

from hyperslab.conversion.copy import Halt, Halted


def test_the_first_error_counts() -> None:
    halt = Halt()
    with pytest.raises(ValueError, match="first"), halt.working():
        halt.check()
        raise ValueError("first")
    with pytest.raises(Halted), halt.working():
        raise AssertionError("the block must not run")
    assert str(halt.first_error(Halted())) == "first"
    assert str(halt.first_error(KeyboardInterrupt())) == "first"


def test_it_waits_for_what_is_at_work() -> None:
    halt, begun, seen = Halt(), threading.Event(), []

    def work() -> None:
        with pytest.raises(Halted), halt.working():
            begun.set()
            while True:
                halt.check()
        seen.append("ended")

    thread = threading.Thread(target=work)
    thread.start()
    begun.wait()
    interrupt = KeyboardInterrupt()
    assert halt.first_error(interrupt) is interrupt
    thread.join()
    assert seen == ["ended"]
