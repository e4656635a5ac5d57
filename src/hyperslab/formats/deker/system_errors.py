"""What the system says of files (too many are open, the medium fails) as errors of ours, wherever others call."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import wraps
from inspect import isgeneratorfunction
from types import FunctionType
from typing import Any, TypeVar

from hyperslab.errors import HyperslabError
from hyperslab.stores.files import read_error

Class = TypeVar("Class", bound=type[Any])


@contextmanager
def read_errors(url: str) -> Iterator[None]:
    """Raise :func:`read_error` for an error of the system within the block; errors of ours stay what they are."""
    try:
        yield
    except HyperslabError:
        raise
    except OSError as error:
        raise read_error(error, str(error.filename or url), "") from error


def translate_errors(url: Callable[[Any], str], *, bare: Collection[str] = ()) -> Callable[[Class], Class]:
    """Return a decorator of classes: their public methods, generators too, run under :func:`read_errors`.

    ``url`` is of the instance. ``bare``: methods that only other methods call, or that only call others, for a call
    more counts where a tile is small. What writes does the same by ``write_errors``, which knows a medium without
    writes.
    """

    def decorate(kind: Class) -> Class:
        for name, member in list(vars(kind).items()):
            if isinstance(member, FunctionType) and not name.startswith("_") and name not in bare:
                setattr(kind, name, (_generator if isgeneratorfunction(member) else _function)(member, url))
        return kind

    return decorate


def _function(method: Callable[..., Any], url: Callable[[Any], str]) -> Callable[..., Any]:
    @wraps(method)
    def call(self: Any, *args: Any, **options: Any) -> Any:
        try:  # not read_errors, which costs more than the rest where a cell is read
            return method(self, *args, **options)
        except HyperslabError:
            raise
        except OSError as error:
            raise read_error(error, str(error.filename or url(self)), "") from error

    return call


def _generator(method: Callable[..., Any], url: Callable[[Any], str]) -> Callable[..., Any]:
    @wraps(method)
    def call(self: Any, *args: Any, **options: Any) -> Any:
        with read_errors(url(self)):
            yield from method(self, *args, **options)

    return call
