"""Links, and references among attributes, that lead nowhere, elsewhere than they mean, or by a way that does not last.

An entry of a document is changed where it is wrong; all else that stands there stays as it is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from hyperslab.errors import Problem
from hyperslab.formats.faults import brief
from hyperslab.formats.hdmf.attribute_names import OWN
from hyperslab.formats.hdmf.attributes import inner_of
from hyperslab.formats.hdmf.link_diagnosis import Target, Verdict, judge
from hyperslab.formats.hdmf.spelling import attributes_of, with_attributes
from hyperslab.formats.hdmf.survey import HDMFSurvey
from hyperslab.formats.keyed_commit import Change
from hyperslab.formats.keyed_damage import NodeDamage
from hyperslab.model.paths import child
from hyperslab.model.refs import Link, ObjectReference, RegionReference
from hyperslab.model.spec import GroupSpec

LINKS, DROP = "links", "drop_links"
"""The part of a repair that is about links and references, and so named the wish to complete them; the wish to take out
links that are of no use."""
_IDS = ("object_id", "source_object_id")
Attributes = dict[str, Any]
Edit = Callable[[Attributes], Attributes]


def of_links(survey: HDMFSurvey, path: str) -> Iterator[NodeDamage]:
    """What is wrong with the links of a group."""
    spec = survey.spec(path)
    if not isinstance(spec, GroupSpec):
        return
    for name, link in survey.links(path).items():
        target = judge(survey, link)
        for verdict in target.verdicts:
            yield _of_link(survey, path, name, link, verdict)
        if target.node is not None:
            yield from _incomplete(survey, path, name, target)
        if survey.has(child(path, name)):
            message = f"the link {name!r} and a node have one name: the link counts, the node is hidden"
            drop = partial(_changed, survey, path, partial(_without_link, survey.profile.words.links, name))
            yield _dropped(child(path, name), "link-hides-node", message, name, drop)
    yield from _no_links(survey, path, spec)


def of_references(survey: HDMFSurvey, path: str) -> Iterator[NodeDamage]:
    """What is wrong with the references among the attributes of a node."""
    spec = survey.spec(path)
    for name, value in ({} if spec is None else spec.attrs).items():
        if not isinstance(value, ObjectReference | RegionReference):
            continue
        for verdict in judge(survey, value).verdicts:
            message = f"attribute {name!r} leads to {value}: {verdict.message}"
            problem = Problem(path, f"reference-{verdict.kind}", message)
            edit = partial(_with_reference, survey, name, verdict.right)
            yield _mended(problem, name, verdict, partial(_changed, survey, path, edit))


# -- entries of links -------------------------------------------------------------------------------------------------


def _of_link(survey: HDMFSurvey, path: str, name: str, link: Link, verdict: Verdict) -> NodeDamage:
    node, kind, message = child(path, name), f"link-{verdict.kind}", f"the link leads to {link}: {verdict.message}"
    word = survey.profile.words.links
    if verdict.of_pointer:
        return _dropped(node, kind, message, name, partial(_changed, survey, path, partial(_without_link, word, name)))
    edit = partial(_with_link, word, name, verdict.right)
    return _mended(Problem(node, kind, message), name, verdict, partial(_changed, survey, path, edit))


def _mended(problem: Problem, about: str, verdict: Verdict, change: Callable[[], Change]) -> NodeDamage:
    if not verdict.right:
        return NodeDamage(problem, about, part=LINKS)
    said = " and ".join(f"the {name} {value!r}" for name, value in verdict.right.items())
    return NodeDamage(problem, about, f"write {said}", change, part=LINKS)


def _dropped(node: str, kind: str, message: str, about: str, change: Callable[[], Change]) -> NodeDamage:
    return NodeDamage(Problem(node, kind, message), about, "take the link out", change, part=LINKS, asked=DROP)


def _incomplete(survey: HDMFSurvey, path: str, name: str, target: Target) -> Iterator[NodeDamage]:
    """What an entry could say of its target, and does not; profile v3 has no words for what is not known."""
    word = survey.profile.words.links
    entries = attributes_of(survey.docs(path))[word]
    entry = entries[_number(entries, name)]
    source = None if target.named is None else target.named.id_of("")
    known = dict(zip(_IDS, (target.object_id, source), strict=True))
    every = survey.profile.words.profile == "v2"
    right = {
        name: value
        for name, value in known.items()
        if (value is not None and entry.get(name) is None) or (every and name not in entry)
    }
    if right:
        said = " and ".join(f"the {each} {'null' if value is None else value}" for each, value in right.items())
        problem = Problem(child(path, name), "link-incomplete", f"the link does not say the {' and '.join(right)}")
        change = partial(_changed, survey, path, partial(_with_link, word, name, right))
        yield NodeDamage(problem, name, f"write {said}", change, part=LINKS, asked=LINKS, sound=True)


def _no_links(survey: HDMFSurvey, path: str, spec: GroupSpec) -> Iterator[NodeDamage]:
    """Entries that are no links; one that says again what another says goes without being asked for."""
    word = survey.profile.words.links
    links = survey.links(path)
    for entry in spec.layout.get(OWN, {}).get("unread", {}).get(word, ()):
        about = json.dumps(entry, sort_keys=True, default=str)
        change = partial(_changed, survey, path, partial(_without_entry, word, entry))
        name = entry.get("name") if isinstance(entry, dict) else None
        if not isinstance(name, str) or name not in links:
            message = f"{word}: {brief(entry)} is no link"
            yield _dropped(path, "link-malformed", message, about, change)
            continue
        first = links[name]
        said = entry.get("path"), entry.get("source")
        same = said in ((first.target, first.source), (first.target[1:], first.source))
        message = f"{word}: {brief(entry)} has the name of another link, which counts"
        problem = Problem(child(path, name), "link-duplicate", message)
        yield NodeDamage(problem, about, "take it out", change, part=LINKS, asked="" if same else DROP)


# -- edits ------------------------------------------------------------------------------------------------------------


def _changed(survey: HDMFSurvey, path: str, edit: Edit) -> Change:
    docs = survey.docs(path)
    return Change({path: with_attributes(docs, edit(dict(attributes_of(docs))))})


def _is_called(entry: Any, name: str) -> bool:
    return isinstance(entry, dict) and entry.get("name") == name


def _with_link(word: str, name: str, right: Mapping[str, Any], attributes: Attributes) -> Attributes:
    """The first entry of the name, which is the one that counts, with other words."""
    entries = list(attributes[word])
    number = _number(entries, name)
    entries[number] = {**entries[number], **right}
    return {**attributes, word: entries}


def _without_link(word: str, name: str, attributes: Attributes) -> Attributes:
    entries = list(attributes[word])
    del entries[_number(entries, name)]
    return {**attributes, word: entries}


def _number(entries: list[Any], name: str) -> int:
    """Where the link stands that counts: entries that are no links may have its name."""
    texts = ("name", "path", "source")
    return next(
        number
        for number, entry in enumerate(entries)
        if _is_called(entry, name)
        and all(isinstance(entry.get(text), str) for text in texts)
        and all(isinstance(entry.get(text), str | None) for text in _IDS)
    )


def _without_entry(word: str, entry: Any, attributes: Attributes) -> Attributes:
    """Without the last of such entries, or all that stands there in place of a list."""
    entries = attributes[word] if isinstance(attributes[word], list) else []
    last = max((number for number, other in enumerate(entries) if other == entry), default=-1)
    return {**attributes, word: [other for number, other in enumerate(entries) if number != last]}


def _with_reference(survey: HDMFSurvey, name: str, right: Mapping[str, Any], attributes: Attributes) -> Attributes:
    value = attributes[name]
    inner = inner_of(value, survey.profile.words)
    place = "value" if survey.profile.words.profile == "v2" else "_REFERENCE"
    return {**attributes, name: {**value, place: {**inner, **right}}}
