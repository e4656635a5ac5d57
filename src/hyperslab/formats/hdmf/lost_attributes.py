"""Attributes of profile v2 that are gone with their file, while consolidated metadata still has them: the links of a
group are among them. No writer takes the file away and leaves the copy."""

from __future__ import annotations

from collections.abc import Iterator

from hyperslab.errors import HyperslabError, Problem
from hyperslab.formats.hdmf.link_damage import LINKS
from hyperslab.formats.hdmf.survey import HDMFSurvey
from hyperslab.formats.keyed_commit import Change
from hyperslab.formats.keyed_damage import NodeDamage
from hyperslab.formats.zarr2.document import ATTRIBUTES
from hyperslab.model.paths import child


def of_attributes(survey: HDMFSurvey, path: str) -> Iterator[NodeDamage]:
    """Those of one node."""
    copied = survey.copy.get(path, {}).get(ATTRIBUTES)
    if not copied or not _is_gone(survey, path):
        return
    place = child(path, ATTRIBUTES)
    names = ", ".join(map(repr, copied))
    message = f"consolidated metadata has attributes of this node that are gone from it: {names} [key={place}]"

    def change() -> Change:
        return Change({path: {**survey.docs(path), ATTRIBUTES: copied}})

    action = "take the attributes from consolidated metadata"
    yield NodeDamage(Problem(path, "lost-attributes", message), "", action, change, part=LINKS)


def _is_gone(survey: HDMFSurvey, path: str) -> bool:
    try:
        return survey.store.get(child(path, ATTRIBUTES)) is None
    except HyperslabError:
        return False
