"""Everything that is known to go wrong in NCZarr datasets, looked for in one of them, and how each is mended.

Documents are changed where they are wrong and left alone otherwise, in the words of their generation: also those of
older ones, which are not written else. A mend looks again, under the lock of the root.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial

from hyperslab.errors import HyperslabError
from hyperslab.formats.base import Remedy
from hyperslab.formats.keyed_damage import remedies_of
from hyperslab.formats.nczarr.damage import of_node
from hyperslab.formats.nczarr.dimension_damage import of_dimensions
from hyperslab.formats.nczarr.list_damage import of_group, of_root
from hyperslab.formats.nczarr.survey import Examiner, NCZarrSurvey, SurveyedDataset
from hyperslab.model.spec import GroupSpec


def remedies(dataset: SurveyedDataset) -> Iterator[Remedy]:
    """Every damage of a dataset whose root can be read."""
    try:
        survey = NCZarrSurvey(dataset)
    except HyperslabError:  # said where documents are looked at one by one
        return
    yield from remedies_of(dataset, survey, lambda: nullcontext(NCZarrSurvey(dataset)), _examiners(survey))


def _examiners(survey: NCZarrSurvey) -> Iterator[Examiner]:
    """What looks at parts of a dataset, in the order in which they are mended."""
    yield of_root
    for path, spec in survey.specs.items():
        yield partial(of_node, path=path)
        if isinstance(spec, GroupSpec):
            yield partial(of_group, path=path)
    yield of_dimensions
