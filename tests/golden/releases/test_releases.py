"""Read what each release has written, in every format: bytes on disk stay readable for ever (GOVERNANCE.md)."""

import json
import shutil
import sys
from pathlib import Path

import pytest

import hyperslab as hs

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
from make import load_mongo, read_truth  # noqa: E402

DATASETS = sorted(HERE.glob("[0-9]*/*.tar.gz"))


def unpack(archive, folder, mongo):
    """The place of a dataset, unpacked or in a database."""
    shutil.unpack_archive(archive, folder, filter="tar")
    (place,) = Path(folder).iterdir()
    if place.name != "documents.jsonl":
        return str(place)
    url = f"{mongo.url}/{mongo.database()}"
    load_mongo(url, place.read_text())
    return f"{url}#state"


@pytest.mark.parametrize("archive", DATASETS, ids=lambda path: f"{path.parent.name} {path.name}")
def test_what_a_release_wrote_is_read(archive, tmp_path, mongo):
    place = unpack(archive, tmp_path, mongo)
    truth = json.loads((archive.parent / archive.name.replace("tar.gz", "json")).read_text())
    assert read_truth(place) == truth
    if archive.name.startswith("deker"):
        hs.repair(place, dry_run=False)  # its links name the folder in which they were made
    assert not hs.check(place, deep=True)


def test_this_release_is_among_them():
    versions = {path.parent.name for path in DATASETS}
    assert versions
    variants = {
        version: {path.name.partition(".")[0] for path in HERE.glob(f"{version}/*.tar.gz")} for version in versions
    }
    assert all("zarr3" in found and len(found) >= 14 for found in variants.values())
