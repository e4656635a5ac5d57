"""Say what a release stands on: ``licences`` (each must be one of those that are allowed), ``sbom`` (CycloneDX, into
``dist/sbom.json``), ``audit`` (known vulnerabilities of the versions in ``.ci/lock.txt``; PyPI is asked).

What is looked at is an environment with ``hyperslab[all]`` in the versions of the lock, and what the wheel bundles
(src/hyperslab/web/page/vendor/manifest.json). The tools stand in an environment of their own.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
TOOLS = ROOT / ".venvs" / "supply-tools"
LOOKED_AT = ROOT / ".venvs" / "supply"
LOCK = ROOT / ".ci" / "lock.txt"
BUNDLED = ROOT / "src" / "hyperslab" / "web" / "page" / "vendor" / "manifest.json"
# Licences under which a library may be installed beside code under Apache-2.0. MPL-2.0 asks for its own files alone. Of
# packages with several licences one is enough.
ALLOWED = re.compile(
    r"MIT|BSD|Apache|ISC\b|ISCL|Python Software Foundation|PSF|Mozilla Public License 2|MPL-2|HPND|"
    r"Historical Permission|zlib|Zlib|Unlicense|0BSD|CC0|public domain"
)
# Packages whose metadata name no licence, with the one that stands in their files.
READ_BY_HAND = {"hdf5plugin": "MIT (each filter that it bundles has its own)", "icechunk": "Apache-2.0"}

# What an environment has without any library: it is not in the lock.
OWN = ("hyperslab", "pip", "setuptools")


def run(*words: object) -> str:
    """Return what a program prints."""
    return subprocess.run([str(word) for word in words], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def make_environments() -> None:
    """Make both environments, if they are not there yet or older than the lock."""
    stamp = LOOKED_AT / ".made"
    if stamp.exists() and stamp.stat().st_mtime > max(LOCK.stat().st_mtime, (ROOT / "pyproject.toml").stat().st_mtime):
        return
    for folder in (TOOLS, LOOKED_AT):
        run(sys.executable, "-m", "venv", "--clear", folder)
    run(TOOLS / "bin/python", "-m", "pip", "--quiet", "install", "cyclonedx-bom", "pip-licenses", "pip-audit")
    run(LOOKED_AT / "bin/python", "-m", "pip", "--quiet", "install", "--constraint", LOCK, f"{ROOT}[all]")
    stamp.touch()


def check_licences() -> int:
    """Print every licence; 1 when one is not allowed."""
    words = ("--python", LOOKED_AT / "bin/python", "--format", "json", "--from", "mixed", "--with-system")
    found = json.loads(run(TOOLS / "bin/pip-licenses", *words))
    licences = {f"{each['Name']} {each['Version']}": READ_BY_HAND.get(each["Name"], each["License"]) for each in found}
    licences |= {f"{each['file']} (bundled)": each["licence"] for each in json.loads(BUNDLED.read_text())["files"]}
    refused = {name: text for name, text in licences.items() if not ALLOWED.search(text)}
    for name, text in sorted(licences.items()):
        print(f"{'NOT ALLOWED ' if name in refused else ''}{name}: {' '.join(text.split())[:100]}")
    print(f"{len(licences)} licences, {len(refused)} not allowed")
    return int(bool(refused))


def write_sbom() -> int:
    """Write the bill of materials, with the files that the wheel bundles."""
    target = ROOT / "dist" / "sbom.json"
    target.parent.mkdir(exist_ok=True)
    words = ("environment", LOOKED_AT / "bin/python", "--pyproject", ROOT / "pyproject.toml", "--output-reproducible")
    run(TOOLS / "bin/cyclonedx-py", *words, "--output-format", "JSON", "--output-file", target)
    bill = json.loads(target.read_text())
    for each in json.loads(BUNDLED.read_text())["files"]:
        bill["components"].append(
            {
                "type": "file",
                "name": each["file"],
                "version": each["version"],
                "hashes": [{"alg": "SHA-256", "content": each["sha256"]}],
                "licenses": [{"license": {"name": each["licence"]}}],
            }
        )
    target.write_text(json.dumps(bill, indent=1) + "\n")
    print(f"{target.relative_to(ROOT)}: {len(bill['components'])} components")
    return 0


def audit() -> int:
    """Ask PyPI for vulnerabilities of the versions of the environment; 1 when one is known, or a version got no answer,
    which pip-audit passes over.

    Mirrors of PyPI may answer about projects, and not about single versions, which pip-audit asks for; what they say
    of a project is of its newest version, which most of the lock's are.
    """
    place = run(LOOKED_AT / "bin/python", "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])").strip()
    words = [str(TOOLS / "bin/pip-audit"), "--path", place, "--format", "json", "--progress-spinner", "off"]
    done = subprocess.run(words, check=False, stdout=subprocess.PIPE, text=True)  # it ends with 1 for a known one
    found = [each for each in json.loads(done.stdout)["dependencies"] if each["name"] not in OWN]
    listed = json.loads(run(TOOLS / "bin/pip", "--python", LOOKED_AT / "bin/python", "list", "--format", "json"))
    versions = {re.sub("[-_.]+", "-", each["name"]).lower(): each["version"] for each in listed}
    for each in found:
        each.setdefault("version", versions[each["name"]])
        if "skip_reason" in each and (faults := ask_about_newest(each["name"], each["version"])) is not None:
            del each["skip_reason"]
            each["vulns"] = faults
    unanswered = [f"{each['name']} {each['version']}" for each in found if "skip_reason" in each]
    known = [(each, fault) for each in found for fault in each.get("vulns", ())]
    for each, fault in known:
        print(
            f"{each['name']} {each['version']}: {fault['id']}, mended in {', '.join(fault['fix_versions']) or 'none'}"
        )
    if unanswered:
        print(f"no answer about {' '.join(unanswered)}")
    print(f"{len(found)} libraries, {len(found) - len(unanswered)} looked up, {len(known)} known vulnerabilities")
    return int(bool(known or unanswered))


def ask_about_newest(name: str, version: str) -> list[dict[str, Any]] | None:
    """Return the faults that PyPI knows of a version; None where there is no answer, or it is of another version."""
    try:
        with urllib.request.urlopen(f"https://pypi.org/pypi/{name}/json", timeout=30) as answer:
            project = json.load(answer)
    except (OSError, ValueError):
        return None
    if project["info"]["version"] != version:
        return None
    faults = [fault for fault in project["vulnerabilities"] if not fault.get("withdrawn")]
    return [{"id": fault["id"], "fix_versions": fault["fixed_in"]} for fault in faults]


if __name__ == "__main__":
    make_environments()
    sys.exit({"licences": check_licences, "sbom": write_sbom, "audit": audit}[sys.argv[1]]())
