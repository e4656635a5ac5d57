"""Every command that reads, over odd sources of netCDF and NCZarr: it succeeds, or says in words why not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import Result

import hyperslab as hs
from cdl.compiling import NEEDS_NCGEN, compiled
from command_line import CliRunner
from hyperslab.cli import main
from hyperslab.cli.exit_codes import DEFECT

NUMBERS = (
    "int v ; byte v:b = -128b ; ubyte v:ub = 255ub ; short v:s = -1s ; ushort v:us = 65535us ; "
    "uint v:ui = 4294967295u ; "
    "int64 v:l = -9223372036854775808ll ; uint64 v:ul = 18446744073709551615ull ; double v:d = NaN, Infinity, 5e-324 ;"
    'float v:f = NaNf, -Infinityf, 1.e-45f ; char v:c = "a\\nb\\tc\\"d\\\\" ; uint64 x ; '
    "data: x = 18446744073709551615 ;"
)
SOURCES = {
    "vlens": "4 types: int(*) i_t ; double(*) d_t ; ubyte(*) bytes ; char(*) c_t ; dimensions: x = 2 ; "
    "variables: i_t a(x) ;"
    "d_t one ; bytes b(x) ; i_t :att = {1, 2, 3}, {}, {4} ; d_t :lone = {1.5} ; data: a = {1, 2}, {} ; one = {NaN} ;",
    "nested vlens": "4 types: int(*) i_t ; compound p_t { int n ; i_t v ; } ; i_t(*) ii_t ; variables: p_t a ; ii_t b ;"
    "data: a = {1, {2, 3}} ; b = {{1}, {2, 3}} ;",
    "opaques": "4 types: opaque(3) o_t ; compound c_t { o_t o ; int i ; } ; dimensions: x = 2 ; "
    "variables: o_t v(x) ; c_t c(x) ;"
    "o_t v:_FillValue = 0XABCDEF ; o_t :att = 0X010203, 0X040506 ; data: v = 0X000102, _ ;",
    "enums": "4 types: byte enum e_t {a\\ b = 0, ü = 1, neg = -1} ; "
    "uint64 enum big_t {top = 18446744073709551615, low = 0} ;"
    "dimensions: x = 3 ; variables: e_t v(x) ; e_t v:_FillValue = neg ; big_t w ; e_t :att = neg, ü ; "
    "data: v = neg, _, ü ;",
    "text in rows": "4 types: compound s_t { string s ; int n ; } ; variables: s_t v ; "
    's_t :att = {"t", 1} ; data: v = {"é", 2} ;',
    "no rows": "4 dimensions: t = UNLIMITED ; u = UNLIMITED ; x = 2 ; variables: int v(t) ; "
    "string s(t, x) ; char c(u, x) ;"
    "double d(t, u) ; int64 t(t) ; group: g { dimensions: t = UNLIMITED ; variables: byte v(t, x) ; }",
    "no records": "3 dimensions: t = UNLIMITED ; x = 2 ; variables: int v(t) ; char c(t, x) ; "
    "double t(t) ; short s(x) ;",
    "lone chars": '4 variables: char a ; char b ; char a:_FillValue = "z" ; string s ; data: a = "x" ; '
    'b = "\\000" ; s = "" ;',
    "fills of chars": '4 dimensions: x = 3 ; variables: char a(x) ; char a:_FillValue = "\\\\" ; char b(x) ;'
    'char b:_FillValue = "\\377" ; char c(x, x) ; char c:_FillValue = "\\"" ; data: a = "a" ; b = "bc" ;',
    "numbers": f"4 variables: {NUMBERS}",
    "numbers of CDF-5": f"5 variables: {NUMBERS}",
    "names": "4 dimensions: a\\ dim = 2 ; ü = 3 ; variables: int with\\ space(a\\ dim) ; int ü(ü) ; "
    "int a.b-c+d@e ; int \\1st ;"
    "int new\\#x ; int :a\\ b = 1 ; group: a\\ g { variables: int with\\[b\\] ; } group: ☃ { variables: int ☃ ; }",
    "names of netCDF-3": "3 dimensions: a\\ dim = 2 ; variables: int with\\ space(a\\ dim) ; int \\1st ; "
    "int p\\%20 ; int e\\*f ;",
    "long names": f"4 dimensions: {'d' * 250} = 2 ; variables: int {'v' * 250}({'d' * 250}) ; int :{'a' * 250} = 1 ;",
    "ranks": "4 dimensions: a = 1 ; c = 2 ; variables: int r(a, a, a, a, c, a, a, c) ; "
    "string s(c, c, c) ; float f(c, c) ;",
    "fills": "4 dimensions: x = 3 ; variables: ubyte ub(x) ; int64 l(x) ; float f(x) ; "
    "f:_FillValue = NaNf ; string st(x) ;"
    'string st:_FillValue = "none" ; int n(x) ; n:_FillValue = 7 ; n:missing_value = 1., 2. ; data: st = "a", _, _ ;',
    "times": '4 dimensions: time = 2 ; variables: int64 time(time) ; time:units = "days since 0001-01-01" ;'
    'time:calendar = "360_day" ; float v(time) ; v:units = 7 ; data: time = 1, 9223372036854775807 ;',
    "packing": '4 dimensions: x = 2 ; variables: short v(x) ; v:scale_factor = "text" ; v:_Unsigned = "true" ;'
    'v:missing_value = "none" ; byte w(x) ; w:_Unsigned = "true" ; w:_FillValue = -1b ; data: v = 1, 2 ; w = 1, -1 ;',
    "nothing": "4 ",
    "nothing in netCDF-3": "3 dimensions: x = 2 ;",
}
QUICK = ("nested vlens", "no rows", "names", "packing")
CASES = [pytest.param(name, marks=() if name in QUICK else (pytest.mark.soak,)) for name in SOURCES]
pytestmark = NEEDS_NCGEN


def run(*arguments: str | Path) -> Result:
    """The result of a command, which has an end that is foreseen."""
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert result.exit_code != DEFECT, (arguments, result.output)
    assert result.exception is None or isinstance(result.exception, SystemExit), arguments
    assert not result.exit_code or "error:" in result.output, (arguments, result.output)
    return result


def arrays(group: hs.Group, path: str = "") -> Iterator[str]:
    """The paths of all arrays."""
    for name, node in group.items():
        if isinstance(node, hs.Group):
            yield from arrays(node, f"{path}{name}/")
        else:
            yield f"{path}{name}"


@pytest.mark.sampled(20)
@pytest.mark.parametrize("name", CASES)
def test_every_command_that_reads(tmp_path: Path, name: str) -> None:
    kind, _, body = SOURCES[name].partition(" ")
    (tmp_path / "a.cdl").write_text(f"netcdf a {{ {body} }}")
    places = [compiled(tmp_path / "a.cdl", tmp_path / "a.nc", kind)]
    for dialect in ("current", "draft"):
        places.append(tmp_path / dialect)
        hs.convert(places[0], places[-1], format="nczarr", dialect=dialect, allow_loss=True, verify=True, durable=False)
    for place in places:
        for command in (("info",), ("tree",), ("dump",), ("check", "--deep")):
            assert not run(*command, place).exit_code
        assert not run("diff", place, place).exit_code
        assert not run("convert", place, tmp_path / f"{place.name}.zarr", "--allow-loss", "--verify").exit_code
        with hs.open_group(place) as root:
            paths = list(arrays(root))
        for path in paths:
            assert not run("get", place, path).exit_code
            assert not run("plan", place, path).exit_code
            run("get", place, path, "--decoded")
