"""Eight processes change one database, killed at random and started again, beside readers that verify each cell.

In the end all that was acknowledged is there, in a collection on a disk, in a bucket whose server fails at every fourth
request, and in MongoDB; and what the dead have left is told by ``check``, and removed by ``repair``.
"""

from __future__ import annotations

import os
import random
import shutil
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import campaign_collections
import campaign_objects
import pytest
from campaigns import Campaign, Journal
from collection_schemas import made
from collection_victims import LEFT, age
from pymongo import MongoClient

import hyperslab as hs
from hyperslab.stores import leases
from servers.faults import faulty

if TYPE_CHECKING:
    from servers.mongo import Mongo
    from servers.s3 import S3

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the children are forked")
HERE = Path(__file__).parent
LONG = pytest.param(600, marks=pytest.mark.soak)


def summary(campaign: Campaign, journals: list[Journal]) -> None:
    """Print how much was done."""
    done = sum((journal.done for journal in journals), Counter[str]())
    deeds = ", ".join(f"{kind} {count}" for kind, count in sorted(done.items()))
    print(f"{done.total()} operations, {campaign.kills} kills, {campaign.reads()} reads; lost 0, wrong 0; {deeds}")


@pytest.mark.sampled(0)
@pytest.mark.parametrize(
    ("layout", "flavour", "keeps", "seconds"),
    [
        ("hyperslab", "varray", True, 4),
        ("deker", "array", False, 2),
        pytest.param("hyperslab", "varray", False, 600, marks=pytest.mark.soak),
        pytest.param("hyperslab", "array", True, 600, marks=pytest.mark.soak),
        pytest.param("deker", "array", False, 600, marks=pytest.mark.soak),
    ],
)
def test_a_collection_on_a_disk(tmp_path: Path, layout: str, flavour: str, keeps: bool, seconds: int) -> None:
    """``keeps``: older versions, so that it is looked at as of some moments, too."""
    url = str(tmp_path / "store")
    place = {"url": url, "storage": None, "lease": 15.0}
    made(url, layout, flavour, keep_versions=keeps)
    campaign = Campaign(HERE / "campaign_collections.py", tmp_path / "journals", place)
    journals = campaign.run(seconds, 100)
    summary(campaign, journals)
    campaign_collections.check_end(place, journals)
    copy = place | {"url": str(tmp_path / "copy")}
    shutil.copytree(url, copy["url"], ignore=shutil.ignore_patterns("index.sqlite*"), symlinks=True)
    assert campaign_collections.rows_of(place) == campaign_collections.rows_of(copy)
    if keeps:
        campaign_collections.check_past(place, campaign)
    age(url)
    assert campaign_collections.kinds_of_damage(place) <= LEFT
    for _ in range(2):
        hs.repair(url, dry_run=False)
    assert campaign_collections.kinds_of_damage(place) == set()
    campaign_collections.check_end(place, journals)


@pytest.mark.sampled(0)
@pytest.mark.parametrize("seconds", [4, LONG])
def test_a_collection_in_a_bucket(tmp_path: Path, s3: S3, seconds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the requests of workers and readers every fourth one fails: it is refused, or done and not answered, or its
    answer breaks off."""
    url = f"s3://{s3.bucket()}/store"
    sound = {"url": url, "storage": s3.options, "lease": 2.0}
    monkeypatch.setattr(leases, "LEASE", sound["lease"])
    monkeypatch.setattr(leases, "BEAT", sound["lease"] / 4)
    made(url, "hyperslab", "varray", storage_options=s3.options)
    chance = random.Random(seconds)
    with faulty(s3.endpoint) as proxy:
        faults = ("503", "reset", "lost", "truncate", "break")
        proxy.choose = lambda method, path: chance.choice(faults) if chance.random() < 0.25 else None
        retries = {"storage": s3.options | {"endpoint": proxy.url}}
        campaign = Campaign(
            HERE / "campaign_collections.py", tmp_path / "journals", sound | retries, workers=8 if seconds > 60 else 4,
            readers=1 + (seconds > 60), pause=2.0, rest=2.0,
        )  # fmt: skip
        journals = campaign.run(seconds, 12)
        print(f"{len(proxy.seen)} requests")
    summary(campaign, journals)
    campaign_collections.check_end(sound, journals)
    assert campaign_collections.kinds_of_damage(sound) <= LEFT
    for _ in range(6):  # behind the mark of a creation of many there may be orphans of it, and behind those their cells
        if not campaign_collections.kinds_of_damage(sound):
            break
        time.sleep(sound["lease"])  # until the leases of those that were killed are over
        hs.repair(url, dry_run=False, storage_options=s3.options)
    assert campaign_collections.kinds_of_damage(sound) == set()
    campaign_collections.check_end(sound, journals)


@pytest.mark.sampled(0)
@pytest.mark.parametrize("seconds", [4, LONG])
def test_objects_in_mongodb(tmp_path: Path, mongo_replica: Mongo, seconds: int) -> None:
    place = {"url": mongo_replica.url, "database": mongo_replica.database(), "lease": 6}
    url = f"{mongo_replica.url}/{place['database']}?collection={campaign_objects.COLLECTION}&directConnection=true"
    with MongoClient[Any](mongo_replica.url, directConnection=True) as client:
        objects = campaign_objects.objects_of(client, str(place["database"]), 1)
        campaign = Campaign(HERE / "campaign_objects.py", tmp_path / "journals", place, rest=0.3)
        journals = campaign.run(seconds, 40)
        summary(campaign, journals)
        for _ in range(2):
            hs.repair(url, dry_run=False)
        objects.collect_garbage(age=0)
        campaign_objects.check_end(objects, journals)
        assert objects.check(deep=True) == []
        assert list(hs.check(url, deep=True)) == []
        client.drop_database(place["database"])
