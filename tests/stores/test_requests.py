"""Many requests at once: an error or an interrupt ends those that have not begun."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable

import pytest

from hyperslab.stores.requests import IN_FLIGHT, each_request


class Calls:
    """Calls that wait ``seconds`` or until they are let go; ``begun`` counts them. The last to begin does ``harm``."""

    def __init__(self, harm: Callable[[], None], seconds: float) -> None:
        self.begun = 0
        self.seconds = seconds
        self.go = threading.Event()
        self._harm = harm
        self._lock = threading.Lock()

    def __call__(self) -> None:
        with self._lock:
            self.begun += 1
            last = self.begun == IN_FLIGHT
        if last:
            self._harm()
        else:
            self.go.wait(self.seconds)


def test_results_in_order() -> None:
    calls = [lambda i=i: i for i in range(200)]
    assert each_request(calls) == list(range(200))
    assert each_request(calls[:1]) == [0]


@pytest.mark.skipif(sys.platform == "win32", reason="signals to a thread")
def test_an_interrupt_waits_for_nothing() -> None:
    main = threading.main_thread().ident
    assert main is not None
    calls = Calls(lambda: signal.pthread_kill(main, signal.SIGINT), 60)
    with pytest.raises(KeyboardInterrupt):
        each_request([calls] * 500)
    assert not calls.go.is_set()  # those under way still wait
    calls.go.set()
    each_request([lambda: None] * 100)  # queued behind whatever was left
    assert calls.begun <= IN_FLIGHT + 1


def test_after_an_error_no_other_begins() -> None:
    def fail() -> None:
        raise ZeroDivisionError

    calls = Calls(fail, 0.2)
    with pytest.raises(ZeroDivisionError):
        each_request([calls] * 500)
    assert calls.begun < 500
