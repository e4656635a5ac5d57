"""Hold the workflows to what they say: each job calls targets of the Makefile that exist, and nothing else."""

import re
import runpy
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.M))


def jobs_of(path):
    return yaml.safe_load(path.read_text())["jobs"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_each_step_calls_make(path):
    for name, job in jobs_of(path).items():
        for step in job.get("steps", []):
            if "run" in step:
                command, *words = step["run"].split()
                assert command == "make", f"{name} runs {step['run']}"
                if "${{" not in words[0]:
                    assert words[0] in TARGETS, f"{name} calls make {words[0]}"
        for target in job.get("strategy", {}).get("matrix", {}).get("target", []):
            assert target in TARGETS, f"{name} calls make {target}"


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_may_only_read_unless_a_job_says_more(path):
    allowed = (
        {"contents": "read"} if path.stem != "docs" else {"contents": "read", "pages": "write", "id-token": "write"}
    )
    assert yaml.safe_load(path.read_text())["permissions"] == allowed
    assert all("timeout-minutes" in job or "uses" in job for job in jobs_of(path).values())


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_commits(path):
    """A tag can be moved to other code; the version stands behind."""
    for name in re.findall(r"uses: *(.*)", path.read_text()):
        assert name.startswith("./") or re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v[\d.]+", name), name


def test_the_page_on_releases_names_them_all():
    page = (ROOT / "docs" / "project" / "releasing.md").read_text()
    assert all(f"`{path.name}`" in page for path in WORKFLOWS)


def test_the_folders_and_files_that_run_without_the_lock_are_there():
    """Nobody sees that one was moved: few machines have such a Python."""
    names = runpy.run_path(str(ROOT / ".ci" / "free_threaded.py"))
    for name in (*names["ROOMS"], *names["FILES"], *names["LEFT_OUT"]):
        assert (ROOT / "tests" / name).exists(), name
