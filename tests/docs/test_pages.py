"""Every page of the documentation is a program that runs and prints what it shows."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest
from pages import ROOT, Run, blocks, sessions, unexplained

from forked import workers

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
DATABASE = "mongodb://localhost:27017/weather"
"""What pages call a database; they are run with a new one."""
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


@pytest.mark.sampled(3)
@each_page
def test_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    monkeypatch.chdir(tmp_path)
    run = Run(page.name, tmp_path)
    text = page.read_text(encoding="utf-8")
    if DATABASE in text:
        server = request.getfixturevalue("mongo")
        text = text.replace(DATABASE, f"{server.url}/{server.database()}")
    if "hyperslab_npy" in text:
        request.getfixturevalue("npy_folder")
    # Where one page has its workers as users have them that is enough: each takes seconds of the processor to begin.
    with nullcontext() if page.name == "dask.md" or "LocalCluster" not in text else workers():
        for block in blocks(text):
            run.block(block)


@each_page
def test_says_why_a_block_is_not_run(page: Path) -> None:
    assert unexplained(page.read_text(encoding="utf-8")) == []


@each_page
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    targets = [part.split(")")[0].split("#")[0] for part in text.split("](")[1:]]
    local = [target for target in targets if target and "://" not in target and not target.startswith("mailto:")]
    assert [target for target in local if not (page.parent / target).exists()] == []


PAGE = """
<!-- no-run: needs a bucket -->
```python
1 / 0
```
```python
x = 2
print(x * 21)
```

```text
4...
```
<!-- no-run: -->
```console
$ echo a \\
  b
a b
$ true
```
"""


def test_the_runner_itself(tmp_path: Path) -> None:
    first, second, third, fourth = blocks(PAGE)
    assert (first.skipped, second.skipped, third.language) == ("needs a bucket", None, "text")
    assert second.output == "4...\n" and second.line == 6
    assert unexplained(PAGE) == ["<!-- no-run: -->"]
    assert list(sessions(fourth.text)) == [("echo a \\\n  b", "a b\n"), ("true", "")]
    run = Run("page", tmp_path)
    run.block(first)
    run.block(second)
    assert run.namespace["x"] == 2


def test_the_runner_sees_a_wrong_output_and_a_failing_command(tmp_path: Path) -> None:
    run = Run("page", tmp_path)
    for wrong in (
        "```python\nprint(1)\n```\n```text\n2\n```",
        "```console\n$ echo 1\n2\n```",
        "```bash\nfalse\n```",
        "```console\n$ hyperslab nonsense\n```",
        "```console\n$ hyperslab --help || test $? = 1\n```",
    ):
        with pytest.raises(AssertionError):
            run.block(next(blocks(wrong)))
    with pytest.raises(ZeroDivisionError):
        run.block(next(blocks("```python\n1 / 0\n```")))
