"""What lies in a dataset and belongs to no dataset: unfinished writes of dead writers, links, pipes, unusable names."""

from __future__ import annotations

from collections.abc import Iterator

from hyperslab.checks.findings import Finding, found
from hyperslab.model.paths import child
from hyperslab.stores.base import Store
from hyperslab.stores.unexpected_files import Stray, Strays

_SAYS = {
    "dangling-link": "a symbolic link leads to {target}, where nothing is",
    "circular-link": "a symbolic link leads in a circle, to {target}",
    "outside-link": "a symbolic link leads out of the dataset, to {target}, and is not followed",
    "special-file": "a pipe, socket or device",
    "unusable-name": "the name can be no key",
}


def strange(store: Store, folder: str, node: str) -> Iterator[Finding]:
    """Return the strays right in a folder; unfinished writes only when their writer is gone."""
    if not isinstance(store, Strays):
        return
    for stray in store.strays(folder):
        if stray.kind != "temporary":
            yield _finding(stray, folder, node, _SAYS[stray.kind].format(target=stray.target))
        elif stray.is_abandoned:
            since = f"{stray.age / 3600:.0f} hours ago" if stray.age >= 3600 else f"{stray.age:.0f} seconds ago"
            yield _finding(stray, folder, node, f"an unfinished write, begun {since} by a writer that is gone")


def _finding(stray: Stray, folder: str, node: str, message: str) -> Finding:
    place = child(folder, stray.name)
    return found(node, stray.kind, f"{message} [key={place}]", key=place)
