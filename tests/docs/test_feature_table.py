"""The page of what each format holds is what the formats declare, and tells of every feature what becomes of it."""

from __future__ import annotations

import sys

from pages import ROOT

sys.path.insert(0, str(ROOT / "docs" / "making"))

import feature_table

import hyperslab as hs
from hyperslab.conversion.losses import CONSEQUENCES, STORAGE
from hyperslab.formats.base import Feature


def test_the_page_is_what_the_formats_declare() -> None:
    written = feature_table.PAGE.read_text(encoding="utf-8")
    assert written == feature_table.render(), "stale: write it anew by python docs/making/feature_table.py"


def test_of_every_feature_it_is_told_what_becomes_of_it() -> None:
    assert {*CONSEQUENCES, *STORAGE} == set(Feature)
    assert not set(CONSEQUENCES) & set(STORAGE)


def test_variants_are_asked_for_by_their_options() -> None:
    for name, info in hs.list_formats().items():
        assert len(info.variants) == 1 or all(variant.options for variant in info.variants), name
        assert len({variant.name for variant in info.variants}) == len(info.variants)


def test_every_lack_of_structure_is_explained() -> None:
    explained = {Feature.GROUPS, Feature.UNLIMITED, Feature.STRINGS, Feature.STRUCTURED, Feature.SCALARS}
    for name, variant in feature_table.columns().items():
        assert [feature for feature in explained - variant.features if feature not in variant.notes] == [], name
