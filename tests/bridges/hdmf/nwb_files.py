"""NWB files with every type that ``pynwb.testing.mock`` offers and more, and builder trees as plain values."""

from __future__ import annotations

import posixpath
from datetime import UTC, datetime
from typing import Any

import numpy as np
from hdmf.build import Builder, ReferenceBuilder
from hdmf.common import DynamicTable, VectorData
from pynwb import NWBFile, TimeSeries
from pynwb.base import ImageReferences, Images
from pynwb.behavior import BehavioralEpochs
from pynwb.image import GrayscaleImage, ImageSeries, IndexSeries, RGBImage
from pynwb.misc import DecompositionSeries, IntervalSeries
from pynwb.testing.mock import base, behavior, device, ecephys, icephys, ogen, ophys
from pynwb.testing.mock.file import mock_NWBFile, mock_Subject

START = datetime(2018, 9, 28, 14, 43, 54, 123000, tzinfo=UTC)


def small_file(series: int = 1) -> NWBFile:
    """A file with a few series, electrodes, trials that refer to a series, and ragged units."""
    nwb = mock_NWBFile(session_start_time=START, session_description="μ-electrode", identifier="small")
    for number in range(series):
        data = np.arange(10 + number, dtype="i2")
        nwb.add_acquisition(TimeSeries(name=f"ts{number}", data=data, timestamps=np.arange(len(data)) / 10, unit="m"))
    first = nwb.acquisition["ts0"]
    nwb.add_acquisition(TimeSeries(name="linked", data=first, timestamps=first, unit="m"))
    nwb.add_trial_column("choice", "what was chosen")
    for row in range(3):
        said = {"choice": "lëft" if row else "", "timeseries": [first], "tags": ["a", "b"][: row + 1]}
        nwb.add_trial(start_time=float(row) / 10, stop_time=(row + 1.0) / 10, **said)
    for times in ([0.1, 0.2], [], [0.5]):
        nwb.add_unit(spike_times=times)
    return nwb


def rich_file() -> NWBFile:
    """A file with everything."""
    nwb = small_file()
    mock_Subject(nwbfile=nwb, subject_id="s1")
    for mock in (base.mock_TimeSeries, behavior.mock_Position, behavior.mock_PupilTracking):
        mock(nwbfile=nwb)
    behavior.mock_CompassDirection(nwbfile=nwb)
    device.mock_Device(nwbfile=nwb)
    electrodes = ecephys.mock_ElectrodesTable(nwbfile=nwb)
    region = ecephys.mock_electrodes(table=electrodes, n_electrodes=5)
    ecephys.mock_ElectricalSeries(nwbfile=nwb, electrodes=region)
    ecephys.mock_SpikeEventSeries(nwbfile=nwb, electrodes=ecephys.mock_electrodes(table=electrodes, n_electrodes=5))
    _icephys(nwb)
    ogen.mock_OptogeneticSeries(nwbfile=nwb)
    _ophys(nwb)
    _more(nwb)
    return nwb


def _icephys(nwb: NWBFile) -> None:
    electrode = icephys.mock_IntracellularElectrode(nwbfile=nwb)
    stimulus = icephys.mock_VoltageClampStimulusSeries(nwbfile=nwb, electrode=electrode)
    response = icephys.mock_VoltageClampSeries(nwbfile=nwb, electrode=electrode)
    icephys.mock_CurrentClampSeries(nwbfile=nwb, electrode=electrode)
    icephys.mock_CurrentClampStimulusSeries(nwbfile=nwb, electrode=electrode)
    icephys.mock_IZeroClampSeries(nwbfile=nwb, electrode=electrode)
    rows = [
        nwb.add_intracellular_recording(electrode=electrode, stimulus=stimulus, response=response),
        nwb.add_intracellular_recording(electrode=electrode, response=response),
    ]
    simultaneous = nwb.add_icephys_simultaneous_recording(recordings=rows)
    sequential = nwb.add_icephys_sequential_recording(simultaneous_recordings=[simultaneous], stimulus_type="square")
    repetition = nwb.add_icephys_repetition(sequential_recordings=[sequential])
    nwb.add_icephys_experimental_condition(repetitions=[repetition])


def _ophys(nwb: NWBFile) -> None:
    plane = ophys.mock_ImagingPlane(nwbfile=nwb)
    ophys.mock_OnePhotonSeries(nwbfile=nwb, imaging_plane=plane)
    ophys.mock_TwoPhotonSeries(nwbfile=nwb, imaging_plane=plane)
    segmentation = ophys.mock_PlaneSegmentation(imaging_plane=plane)
    ophys.mock_ImageSegmentation(plane_segmentations=[segmentation], nwbfile=nwb)
    for mock in (ophys.mock_DfOverF, ophys.mock_Fluorescence):
        response = ophys.mock_RoiResponseSeries(plane_segmentation=segmentation)
        mock(nwbfile=nwb, roi_response_series=[response])


def _more(nwb: NWBFile) -> None:
    nwb.add_acquisition(IntervalSeries(name="spans", data=np.array([1, -1], "i1"), timestamps=[0.0, 1.0]))
    epochs = BehavioralEpochs(name="epochs")
    epochs.create_interval_series(name="asleep", data=np.array([1, -1], "i1"), timestamps=[0.0, 2.0])
    module = nwb.create_processing_module("behavior_more", "of the tests")
    module.add(epochs)
    table = DynamicTable(
        name="table",
        description="of all kinds",
        columns=[
            VectorData(name="flag", description="bool", data=np.array([True, False])),
            VectorData(name="text", description="text", data=["x", ""]),
            VectorData(name="wide", description="2-d", data=np.arange(6.0).reshape(2, 3)),
        ],
    )
    table.add_column("ragged", "lists", data=[[1, 2], [3]], index=True)
    module.add(table)
    pixels = np.arange(12, dtype="u1").reshape(3, 4)
    images = [GrayscaleImage(name="grey", data=pixels), RGBImage(name="rgb", data=np.zeros((2, 2, 3), "u1"))]
    order = ImageReferences(name="order_of_images", data=images)
    nwb.add_acquisition(Images(name="images", images=images, order_of_images=order))
    nwb.add_acquisition(ImageSeries(name="film", data=np.zeros((2, 3, 4), "u1"), unit="n.a.", rate=1.0))
    nwb.add_acquisition(
        IndexSeries(
            name="shown", data=np.array([0, 1], "u4"), unit="N/A", indexed_images=nwb.acquisition["images"], rate=1.0
        )
    )
    source = nwb.acquisition["ts0"]
    bands = DecompositionSeries(
        name="bands", data=np.zeros((2, 5, 3)), metric="power", rate=1.0, source_timeseries=source
    )
    for band in range(3):
        bands.add_band(band_name=f"b{band}", band_limits=(float(band), band + 1.0), band_mean=0.5, band_stdev=0.1)
    module.add(bands)
    events = nwb.create_events_table(name="events", description="what happened")
    events.add_event(timestamp=0.5, duration=1.0, annotation="bëll")
    events.add_event(timestamp=1.5, duration=0.5, annotation="")
    nwb.add_scratch(np.arange(4), name="scratched", description="an array")
    nwb.add_epoch(start_time=0.0, stop_time=1.0, tags=["first"])
    nwb.add_invalid_time_interval(start_time=0.5, stop_time=0.6)


def tree_of(builder: Any) -> dict[str, Any]:
    """A builder with all below it as plain values: links and references are the paths that they lead to."""
    found: dict[str, Any] = {"attributes": {name: _value(value) for name, value in builder.attributes.items()}}
    found["groups"] = {name: tree_of(group) for name, group in builder.groups.items()}
    found["links"] = {link.name: place_of(link.builder) for link in builder.links.values()}
    found["datasets"] = {
        name: {"attributes": {key: _value(value) for key, value in each.attributes.items()}, "data": _value(each.data)}
        for name, each in builder.datasets.items()
    }
    return found


def place_of(builder: Any) -> str:
    """Where a builder stands."""
    if builder.parent is None and builder.name == "root":
        return "/"
    if builder.location is not None:
        return posixpath.normpath(posixpath.join("/", builder.location, builder.name))
    return posixpath.join(place_of(builder.parent), builder.name)


def _value(value: Any) -> Any:
    match value:
        case ReferenceBuilder():
            return {"to": place_of(value.builder)}
        case Builder():
            return {"to": place_of(value)}
        case bytes():
            return value.decode()
        case str() | bool() | int() | float() | None:
            found = value.item() if isinstance(value, np.generic) else value
            return "NaN" if found != found else found
        case np.ndarray() | np.generic():
            return _value(value.tolist())
    return [_value(each) for each in value]
