"""What people do with nco and cdo, each task with their commands and ours: data, of which the page "Coming from nco and
cdo" is made (`old_tools.py`) and by which it is tested (tests/interop/test_old_tools.py).

Commands stand as they are typed in a folder with the files that `tests/interop/old_tool_files.py` makes.
"""

from __future__ import annotations

from dataclasses import dataclass

ROUNDING = 1e-6
"""Floats that are reduced in another order differ by this much of the largest of them."""


@dataclass(frozen=True)
class Task:
    """A task, the commands of ``nco`` and ``cdo`` ("" where it has none) and ``ours``, which all write ``out.nc``
    unless they print.

    ``start``: a file that is copied to ``out.nc`` first, for commands that change what is there. ``cells``: arrays
    whose cells must be equal, and ``labels``, coordinates whose cells must be; the first within ``rounding`` of the
    largest where that is not 0. ``attributes``: ``array@name``, or ``@name`` of the file, that must be equal.
    ``absent``: what may no longer be there, written like that. ``words``: a regular expression, for commands that
    print: the same words must match, wherever they stand, or the same numbers to four digits. ``chunks``: arrays that
    must be cut equally. ``status``: how commands must end. ``note``: what the page says besides.
    """

    title: str
    nco: str
    cdo: str
    ours: str
    cells: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    rounding: float = 0.0
    attributes: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    words: str = ""
    chunks: tuple[str, ...] = ()
    start: str = ""
    status: int = 0
    note: str = ""


CHOICE = (
    Task(
        "one variable, with its coordinates",
        "ncks -v t air.nc out.nc",
        "cdo selname,t air.nc out.nc",
        "hyperslab convert air.nc out.nc -v t",
        ("t",),
        ("time", "level", "lat", "lon"),
        attributes=("t@units", "t@cell_methods", "time@units", "@title"),
        absent=("u", "ps"),
    ),
    Task(
        "variables by pattern",
        "ncks -v '^[uv]$' air.nc out.nc",
        "cdo selname,[uv] air.nc out.nc",
        "hyperslab convert air.nc out.nc -v '[uv]'",
        ("u", "v"),
        ("time", "lat", "lon"),
        absent=("t", "ps"),
    ),
    Task(
        "all but some",
        "ncks -x -v t,u air.nc out.nc",
        "cdo delname,t,u air.nc out.nc",
        "hyperslab convert air.nc out.nc -x t,u",
        ("v", "ps"),
        absent=("t", "u"),
    ),
    Task(
        "by standard name",
        "",
        "cdo selstdname,eastward_wind air.nc out.nc",
        "hyperslab convert air.nc out.nc --where standard_name=eastward_wind",
        ("u",),
        absent=("t", "v", "ps"),
    ),
    Task(
        "by units",
        "",
        "cdo select,name=ps air.nc out.nc",
        "hyperslab convert air.nc out.nc --where units=hPa --where standard_name=surface_air_pressure",
        ("ps",),
        absent=("t", "v", "u"),
        note="conditions on any attribute; all must hold",
    ),
    Task(
        "without coordinates",
        "ncks -C -v ps air.nc out.nc",
        "",
        "hyperslab convert air.nc out.nc -v ps --alone",
        ("ps",),
        absent=("t", "lat", "lon", "time"),
    ),
    Task(
        "a group of a netCDF-4 file",
        "ncks -G : -g model air_groups.nc out.nc",
        "",
        "hyperslab convert air_groups.nc out.nc --path model",
        ("t",),
        attributes=("t@units",),
        note="as a file of its own",
    ),
)
"""Which variables."""

POSITIONS = (
    Task(
        "the first ten times",
        "ncks -d time,0,9 air.nc out.nc",
        "cdo seltimestep,1/10 air.nc out.nc",
        "hyperslab convert air.nc out.nc -s time=0..10",
        ("t", "ps"),
        ("time", "lat"),
        note="positions from 0, the stop excluded",
    ),
    Task(
        "the last time",
        "ncks -d time,-1 air.nc out.nc",
        "cdo seltimestep,-1 air.nc out.nc",
        "hyperslab convert air.nc out.nc -s time=-1",
        ("t", "ps"),
    ),
    Task(
        "every fifth time",
        "ncks -d time,0,,5 air.nc out.nc",
        "cdo seltimestep,1/730/5 air.nc out.nc",
        "hyperslab convert air.nc out.nc -s time=0..730..5",
        ("t", "u"),
        ("time",),
    ),
    Task(
        "one level by its number",
        "ncks -d level,1 air.nc out.nc",
        "cdo sellevidx,2 air.nc out.nc",
        "hyperslab convert air.nc out.nc -v t -s level=1",
        ("t",),
    ),
    Task(
        "a box by positions",
        "ncks -d lon,0,3 -d lat,2,4 air.nc out.nc",
        "cdo selindexbox,1,4,3,5 air.nc out.nc",
        "hyperslab convert air.nc out.nc -s lon=0..4 -s lat=2..5",
        ("t", "ps"),
        ("lat", "lon"),
    ),
    Task(
        "by axis, whatever it is called",
        "",
        "cdo seltimestep,7 ostia.nc out.nc",
        "hyperslab convert ostia.nc out.nc -s T=6",
        ("surface_temperature",),
        note="X, Y, Z and T by CF's rules, or a standard name",
    ),
)
"""Selection by position."""

LABELS = (
    Task(
        "latitudes from 30 to 60",
        "ncks -d lat,30.,60. air.nc out.nc",
        "cdo sellonlatbox,0,360,30,60 air.nc out.nc",
        "hyperslab convert air.nc out.nc -s lat=30.0..60.0",
        ("t", "ps"),
        ("lat",),
        note="floats are labels, and both ends are taken",
    ),
    Task(
        "one level by its label",
        "ncks -d level,500. air.nc out.nc",
        "cdo sellevel,500 air.nc out.nc",
        "hyperslab convert air.nc out.nc -v t -s level=@500",
        ("t",),
    ),
    Task(
        "levels from 850 to 500",
        "ncks -d level,500.,850. air.nc out.nc",
        "cdo sellevel,850,500 air.nc out.nc",
        "hyperslab convert air.nc out.nc -v t -s air_pressure=850.0..500.0",
        ("t",),
        ("level",),
    ),
    Task(
        "one day",
        "ncks -d time,2013-02-01T12 air.nc out.nc",
        "cdo seldate,2013-02-01 air.nc out.nc",
        "hyperslab convert air.nc out.nc -s time=2013-02-01",
        ("t", "ps"),
    ),
    Task(
        "from one day to another",
        "ncks -d time,2013-02-01,2013-03-15 air.nc out.nc",
        "cdo seldate,2013-02-01,2013-03-14 air.nc out.nc",
        "hyperslab convert air.nc out.nc -s time=2013-02-01..2013-03-14",
        ("t", "ps"),
        ("time",),
    ),
    Task(
        "one month",
        "ncks -d time,2013-02-01,2013-03-01 air.nc out.nc",
        "cdo seldate,2013-02-01,2013-02-28 air.nc out.nc",
        "hyperslab convert air.nc out.nc -s time=2013-02",
        ("t", "u"),
        ("time",),
    ),
    Task(
        "one year",
        "ncks -d time,2014-01-01,2015-01-01 air.nc out.nc",
        "cdo selyear,2014 air.nc out.nc",
        "hyperslab convert air.nc out.nc -s time=@2014",
        ("t", "u"),
        ("time",),
    ),
    Task(
        "dates of a calendar of 360 days",
        "",
        "cdo seldate,1900-01-01,1909-12-30 america.nc out.nc",
        "hyperslab convert america.nc out.nc -s time=@1900..@1909",
        ("air_temperature",),
        ("time",),
    ),
    Task(
        "a box",
        "ncks -d lon,20.,60. -d lat,20.,70. air.nc out.nc",
        "cdo sellonlatbox,20,60,20,70 air.nc out.nc",
        "hyperslab convert air.nc out.nc --bbox 20,20,60,70",
        ("t", "ps"),
        ("lat", "lon"),
        note="west, south, east, north",
    ),
    Task(
        "across the seam of longitudes",
        "ncks -d lon,330.,30. air.nc out.nc",
        "cdo sellonlatbox,330,390,-90,90 air.nc out.nc",
        "hyperslab convert air.nc out.nc -s lon=330.0..30.0",
        ("t", "ps"),
        note="labels continue: 330 … 390",
    ),
    Task(
        "west of Greenwich, of a grid from 0 to 360",
        "ncks -d lon,320.,350. air.nc out.nc",
        "cdo sellonlatbox,-40,-10,-90,90 air.nc out.nc",
        "hyperslab convert air.nc out.nc -s lon=-40.0..-10.0",
        ("t", "ps"),
    ),
    Task(
        "a box across the seam",
        "ncks -d lon,330.,30. -d lat,30.,70. air.nc out.nc",
        "cdo sellonlatbox,-30,30,30,70 air.nc out.nc",
        "hyperslab convert air.nc out.nc --bbox -30,30,30,70",
        ("t", "ps"),
        ("lat",),
    ),
    Task(
        "the grid point next to a place",
        "ncks -d lon,11. -d lat,49. air.nc out.nc",
        "cdo remapnn,lon=11_lat=49 air.nc out.nc",
        "hyperslab convert air.nc out.nc -s lon=11.0 -s lat=49.0 --nearest",
        ("t", "ps"),
        note="`--tolerance 5` limits the distance",
    ),
    Task(
        "a box on a curved grid",
        "",
        "cdo sellonlatbox,-60,-20,20,50 orca_cut.nc out.nc",
        "hyperslab convert orca_cut.nc out.nc --bbox -60,20,-20,50",
        ("votemper",),
        note="the smallest rectangle around all",
    ),
)
"""Selection by label."""

MEANS = (
    Task(
        "mean over time",
        "ncra air.nc out.nc",
        "cdo timmean air.nc out.nc",
        "hyperslab aggregate air.nc out.nc --how mean --over time",
        ("t", "ps"),
        rounding=ROUNDING,
    ),
    Task(
        "sum over time",
        "ncra -y ttl air.nc out.nc",
        "cdo timsum air.nc out.nc",
        "hyperslab aggregate air.nc out.nc --how sum --over time",
        ("t", "ps"),
        rounding=ROUNDING,
    ),
    Task(
        "least cell over time",
        "ncra -y min air.nc out.nc",
        "cdo timmin air.nc out.nc",
        "hyperslab aggregate air.nc out.nc --how min --over time",
        ("t", "ps"),
    ),
    Task(
        "largest cell over time",
        "ncra -y max air.nc out.nc",
        "cdo timmax air.nc out.nc",
        "hyperslab aggregate air.nc out.nc --how max --over time",
        ("t", "ps"),
    ),
    Task(
        "standard deviation over time",
        "",
        "cdo timstd air.nc out.nc",
        "hyperslab aggregate air.nc out.nc --how std --over time",
        ("t", "ps"),
        rounding=1e-5,
    ),
    Task(
        "zonal mean",
        "ncwa -a lon air.nc out.nc",
        "cdo zonmean air.nc out.nc",
        "hyperslab aggregate air.nc out.nc --how mean --over lon",
        ("t", "ps"),
        rounding=ROUNDING,
    ),
    Task(
        "largest of all levels",
        "ncwa -y max -a level -v t air.nc out.nc",
        "cdo vertmax -selname,t air.nc out.nc",
        "hyperslab aggregate air.nc out.nc -v t --how max --over level",
        ("t",),
    ),
    Task(
        "mean over the globe by area",
        "ncwa -w area -a lat,lon -v t,ps air.nc out.nc",
        "cdo fldmean air.nc out.nc",
        "hyperslab aggregate air.nc out.nc -v t,ps --how mean --over lat,lon --weighted",
        ("t", "ps"),
        rounding=ROUNDING,
        note="by `cell_measures`, else by the bounds of latitude",
    ),
    Task(
        "mean over the globe, every cell alike",
        "ncwa -a lat,lon air.nc out.nc",
        "cdo fldmean,weights=false air.nc out.nc",
        "hyperslab aggregate air.nc out.nc --how mean --over lat,lon",
        ("t", "ps"),
        rounding=ROUNDING,
    ),
    Task(
        "largest cell of the globe",
        "ncwa -y max -a lat,lon air.nc out.nc",
        "cdo fldmax air.nc out.nc",
        "hyperslab aggregate air.nc out.nc --how max --over lat,lon",
        ("t", "ps"),
    ),
    Task(
        "mean of a zone over the days of a summer",
        "",
        "cdo timmean -sellonlatbox,0,360,20,70 -seldate,2013-06-01,2013-08-31 air.nc out.nc",
        "hyperslab aggregate air.nc out.nc --how mean --over time -s lat=20.0..70.0 -s time=2013-06..2013-08",
        ("t", "ps"),
        rounding=ROUNDING,
    ),
)
"""Averages, sums and extremes."""

PERIODS = (
    Task(
        "of each month",
        "",
        "cdo monmean air.nc out.nc",
        "hyperslab aggregate air.nc out.nc --how mean --over time --every month",
        ("t", "ps"),
        rounding=ROUNDING,
    ),
    Task(
        "sums of each month",
        "",
        "cdo monsum air.nc out.nc",
        "hyperslab aggregate air.nc out.nc --how sum --over time --every month",
        ("t", "ps"),
        rounding=ROUNDING,
    ),
    Task(
        "largest of each month",
        "",
        "cdo monmax air.nc out.nc",
        "hyperslab aggregate air.nc out.nc --how max --over time --every month",
        ("t", "ps"),
    ),
    Task(
        "of each month of the calendar",
        "",
        "cdo ymonmean air.nc out.nc",
        "hyperslab aggregate air.nc out.nc --how mean --over time --by month",
        ("t", "ps"),
        rounding=ROUNDING,
    ),
    Task(
        "of each season",
        "",
        "cdo seasmean air.nc out.nc",
        "hyperslab aggregate air.nc out.nc --how mean --over time --every season",
        ("t", "ps"),
        rounding=ROUNDING,
    ),
    Task(
        "of each season of the calendar",
        "",
        "cdo yseasmean air.nc out.nc",
        "hyperslab aggregate air.nc out.nc --how mean --over time --by season",
        ("t", "ps"),
        rounding=ROUNDING,
    ),
    Task(
        "of each year",
        "ncra --mro -d time,,,365,365 air.nc out.nc",
        "cdo yearmean air.nc out.nc",
        "hyperslab aggregate air.nc out.nc --how mean --over time --every year",
        ("t", "ps"),
        rounding=ROUNDING,
    ),
    Task(
        "of each day of the year",
        "",
        "cdo ydaymean air.nc out.nc",
        "hyperslab aggregate air.nc out.nc --how mean --over time --by day",
        ("t", "ps"),
        rounding=ROUNDING,
    ),
    Task(
        "of each day",
        "ncra --mro -d time,,,24,24 hourly.nc out.nc",
        "cdo daymean hourly.nc out.nc",
        "hyperslab aggregate hourly.nc out.nc --how mean --over time --every day",
        ("rain",),
        rounding=ROUNDING,
    ),
    Task(
        "of each hour of the day",
        "",
        "cdo dhourmean hourly.nc out.nc",
        "hyperslab aggregate hourly.nc out.nc --how mean --over time --by hour",
        ("rain",),
        rounding=ROUNDING,
    ),
)
"""By calendar."""

ATTRIBUTES = (
    Task(
        "rename a variable",
        "ncrename -v t,temperature out.nc",
        "cdo chname,t,temperature air.nc out.nc",
        "hyperslab edit out.nc --rename-variable t=temperature",
        ("temperature", "ps"),
        absent=("t",),
        start="air.nc",
    ),
    Task(
        "rename a dimension with its coordinate",
        "ncrename -d lat,latitude -v lat,latitude out.nc",
        "",
        "hyperslab edit out.nc --rename-dimension lat=latitude --rename-variable lat=latitude",
        ("t", "ps"),
        ("latitude",),
        absent=("lat",),
        start="classic.nc",
        note="nco 5.1 loses the labels of a netCDF-4 file by this",
    ),
    Task(
        "rename an attribute",
        "ncrename -a t@long_name,title out.nc",
        "",
        "hyperslab edit out.nc --rename-attribute t:long_name=title",
        ("t",),
        attributes=("t@title",),
        absent=("t@long_name",),
        start="air.nc",
    ),
    Task(
        "set an attribute of text",
        "ncatted -a units,t,o,c,kelvin out.nc",
        "cdo setattribute,t@units=kelvin air.nc out.nc",
        "hyperslab edit out.nc --set t:units=kelvin",
        ("t",),
        attributes=("t@units",),
        start="air.nc",
    ),
    Task(
        "set a number of a type",
        "ncatted -a valid_min,t,c,f,100 out.nc",
        "",
        "hyperslab edit out.nc --set t:valid_min:f4=100",
        ("t",),
        attributes=("t@valid_min",),
        start="air.nc",
    ),
    Task(
        "delete an attribute",
        "ncatted -a long_name,t,d,, out.nc",
        "",
        "hyperslab edit out.nc --delete t:long_name",
        ("t",),
        absent=("t@long_name",),
        start="air.nc",
    ),
    Task(
        "append to an attribute of the file",
        "ncatted -h -a history,global,a,c,' and changed' out.nc",
        "",
        "hyperslab edit out.nc --append ':history= and changed'",
        attributes=("@history",),
        start="air_plain.nc",
    ),
    Task(
        "set one of several variables",
        "ncatted -a source,^[uv]$,c,c,model out.nc",
        "cdo setattribute,[uv]@source=model air.nc out.nc",
        "hyperslab edit out.nc --set '[uv]:source=model'",
        attributes=("u@source", "v@source"),
        absent=("t@source",),
        start="air.nc",
    ),
)
"""Names and attributes."""

STORED = (
    Task(
        "pack floats into 16 bits",
        "ncpdq -P all_new air.nc out.nc",
        "",
        "hyperslab repack air.nc out.nc",
        ("t", "u", "v"),
        rounding=1e-4,
        note="the error is printed; of `ps` nco 5.1 makes 8 cells missing, whose packed number is its `_FillValue`",
    ),
    Task(
        "unpack",
        "ncpdq -U packed.nc out.nc",
        "cdo unpack packed.nc out.nc",
        "hyperslab unpack packed.nc out.nc",
        ("t",),
        rounding=ROUNDING,
        absent=("t@scale_factor", "t@add_offset"),
    ),
    Task(
        "keep nine bits of each float",
        "ncks -4 --baa=8 --ppc t=9 air.nc out.nc",
        "",
        "hyperslab repack air.nc out.nc -v t --bits 9",
        ("t",),
        note="rounded values compress well",
    ),
    Task(
        "keep three significant digits",
        "ncks -4 --qnt t=3 air.nc out.nc",
        "",
        "hyperslab repack air.nc out.nc -v t --digits 3",
        ("t",),
        rounding=2e-3,
    ),
    Task(
        "other units",
        "ncap2 -s 't=t-273.15f;t@units=\"degC\"' air.nc out.nc",
        "cdo setattribute,t@units=degC -subc,273.15 -selname,t air.nc out.nc",
        "hyperslab convert air.nc out.nc --units t=degC",
        ("t",),
        attributes=("t@units",),
        rounding=ROUNDING,
        note="by pint, offsets included",
    ),
    Task(
        "netCDF-3 to compressed netCDF-4",
        "ncks -4 -L 5 classic.nc out.nc",
        "cdo -f nc4 -z zip_5 copy classic.nc out.nc",
        "hyperslab convert classic.nc out.nc --codec shuffle+zlib:5",
        ("t", "ps"),
        ("time", "lat", "lon"),
        attributes=("t@units", "@title"),
    ),
    Task(
        "cut into other chunks",
        "ncks -4 --cnk_dmn time,73 --cnk_dmn level,1 --cnk_dmn lat,12 --cnk_dmn lon,36 air.nc out.nc",
        "",
        "hyperslab convert air.nc out.nc --chunks time=73,level=1,lat=12,lon=36",
        ("t", "ps"),
        chunks=("t",),
        note="nccopy: `-c time/73,level/1,lat/12,lon/36`",
    ),
    Task(
        "a copy in chunks of the library's choice, compared",
        "ncks air.nc out.nc",
        "cdo copy air.nc out.nc",
        "hyperslab convert air.nc out.nc --verify",
        ("t", "ps", "u", "v"),
        ("time", "level", "lat", "lon"),
        attributes=("t@units", "t@long_name", "ps@standard_name", "@title"),
    ),
)
"""How cells are stored."""

JOINED = (
    Task(
        "files one behind the other in time",
        "ncrcat year_2013.nc year_2014.nc out.nc",
        "cdo mergetime year_2013.nc year_2014.nc out.nc",
        "hyperslab convert 'year_*.nc' out.nc --along time",
        ("t", "ps"),
        ("time",),
        note="sorted by their labels, as `mergetime` does; `hyperslab virtual` joins without copying",
    ),
    Task(
        "one more file behind a dataset",
        "ncrcat -O year_2013.nc year_2014.nc out.nc",
        "cdo cat year_2014.nc out.nc",
        "hyperslab append out.nc year_2014.nc --dim time",
        ("t", "ps"),
        ("time",),
        start="year_2013.nc",
    ),
)
"""Several files."""

PRINTED = (
    Task(
        "the header",
        "ncks -m air.nc",
        "",
        "hyperslab dump -h air.nc",
        words=r"\bfloat \w+ ?\([\w, ]+\)",
        note="as `ncdump -h` prints it",
    ),
    Task(
        "names of variables",
        "",
        "cdo -s showname air.nc",
        "hyperslab info air.nc",
        words=r"(?<=[/ ])(?:t|u|v|ps)(?=\s)",
    ),
    Task(
        "dates",
        "",
        "cdo -s showdate ostia.nc",
        "hyperslab get ostia.nc time --decoded",
        words=r"\d{4}-\d\d-\d\d",
    ),
    Task(
        "number of times",
        "",
        "cdo -s ntime america.nc",
        "hyperslab info america.nc",
        words=r"(?:\btime: |\A)(\d+)",
    ),
    Task(
        "levels",
        "",
        "cdo -s showlevel -selname,t air.nc",
        "hyperslab get air.nc level",
        words=r"\b\d{3}(?:\.\d+)?\b",
    ),
    Task(
        "one cell",
        "ncks -H -C -s '%.2f\\n' -v air_temperature -d time,0 -d latitude,0 -d longitude,0 america.nc",
        "cdo -s outputf,%.2f -seltimestep,1 -selindexbox,1,1,1,1 america.nc",
        "hyperslab get america.nc air_temperature -s time=0 -s latitude=0 -s longitude=0",
        words=r"\b\d{3}\.\d+",
    ),
    Task(
        "least, mean and largest cells, and how many are missing",
        "",
        "cdo -s infon -seltimestep,1 -selname,ps air.nc",
        "hyperslab stats air.nc ps -s time=0",
        words=r"\b(?:9[67]\d|10[0-4]\d)\.\d+\b",
    ),
    Task(
        "what differs between two files",
        "",
        "cdo -s diffn air.nc changed.nc",
        "hyperslab diff air.nc changed.nc",
        status=1,
        note="attributes, types and dimensions too",
    ),
)
"""What is in a file."""

GROUPS = {
    "Which variables": CHOICE,
    "Selection by position": POSITIONS,
    "Selection by label": LABELS,
    "Averages, sums, extremes": MEANS,
    "By calendar": PERIODS,
    "Names and attributes": ATTRIBUTES,
    "How cells are stored": STORED,
    "Several files": JOINED,
    "What is in a file": PRINTED,
}
TASKS = [task for tasks in GROUPS.values() for task in tasks]
