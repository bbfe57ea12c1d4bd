"""The lock names every package the project installs, at its pin and with hashes; skipped is not passed."""

import importlib.util
import re
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from types import ModuleType

import pytest
from packaging.requirements import Requirement

from tests.conftest import ROOT

FOLDER = ROOT / "requirements"


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


LOCK = script("lock")
AUDIT = script("audit")


def locked(name: str) -> dict[str, tuple[str, list[str]]]:
    """Package → (version, hashes)."""
    joined = (FOLDER / name).read_text("utf-8").replace("\\\n", " ")
    out = {}
    for line in joined.splitlines():
        if line and not line.startswith("#"):
            pin, *options = line.split()
            package, _, version = pin.partition("==")
            out[package] = (version, [o.removeprefix("--hash=sha256:") for o in options])
    return out


def needed(package: str, extras: frozenset[str], seen: set[tuple[str, frozenset[str]]]) -> set[str]:
    """Every package that installing this one, with these extras, brings along on this machine."""
    if (package, extras) in seen:
        return set()
    seen.add((package, extras))
    found = {package}
    for requirement in requirements(package, extras):
        marked = requirement.marker
        if marked is None or any(marked.evaluate({"extra": extra}) for extra in (extras or {""})):
            found |= needed(LOCK.normal(requirement.name), frozenset(requirement.extras), seen)
    return found


def requirements(package: str, extras: frozenset[str]) -> list[Requirement]:
    """Our own from the project file, which an editable install may lag behind; others' as installed."""
    if package == "simdx":
        project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
        own = [line for extra in extras for line in project["optional-dependencies"][extra]]
        return [Requirement(line) for line in [*project["dependencies"], *own]]
    try:
        return [Requirement(line) for line in distribution(package).requires or []]
    except PackageNotFoundError:
        return []


def test_every_pin_is_locked_with_hashes() -> None:
    lock = locked("lock.txt")
    assert {name: version for name, (version, _) in lock.items()} == LOCK.read_pins(
        FOLDER / "constraints.txt"
    ), "constraints.txt has changed: run 'make lock'"
    for name, (_, hashes) in {**lock, **locked("lock-cuda.txt")}.items():
        assert hashes, name
        assert all(re.fullmatch("[0-9a-f]{64}", sha) for sha in hashes), name


def test_every_package_the_project_installs_is_locked() -> None:
    brought = needed("simdx", frozenset({"dev", "supply"}), set()) - {"simdx"}
    assert len(brought) > 100
    assert brought <= set(locked("lock.txt")), "not in requirements/constraints.txt"


def test_both_builds_of_torch_are_allowed_and_cuda_stands_apart() -> None:
    _, hashes = locked("lock.txt")["torch"]
    assert set(LOCK.ELSEWHERE["torch"].values()) <= set(hashes)
    assert len(hashes) > 10
    cuda = locked("lock-cuda.txt")
    assert "triton" in cuda
    assert any(name.startswith("nvidia-") for name in cuda)
    assert not set(cuda) & set(locked("lock.txt"))


@pytest.mark.parametrize(
    ("file", "name", "version"),
    [
        ("numpy-2.4.6-cp311-cp311-manylinux_2_28_x86_64.whl", "numpy", "2.4.6"),
        ("scikit_learn-1.8.0.tar.gz", "scikit-learn", "1.8.0"),
        ("charset-normalizer-3.5.2.tar.gz", "charset-normalizer", "3.5.2"),
        ("fhir.resources-8.3.0.zip", "fhir-resources", "8.3.0"),
        ("torch-2.13.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl", "torch", "2.13.0+cpu"),
        ("numpy-1.0.1.dev3460.win32-py2.4.exe", "numpy", ""),
    ],
)
def test_versions_are_read_from_file_names(file: str, name: str, version: str) -> None:
    assert LOCK.version_of(file, name) == version


def test_skipped_is_not_passed() -> None:
    sound = {"name": "a", "version": "1", "vulns": []}
    skipped = {"name": "b", "skip_reason": "nobody answered"}
    bad = {"name": "c", "version": "2", "vulns": [{"id": "PYSEC-1", "fix_versions": ["3"]}]}
    assert AUDIT.verdict({"dependencies": [sound]}) == (0, ["passed: 1 packages, no known vulnerability"])
    said = (0, ["SKIPPED: 1 of 2 packages could not be audited (b)"])
    assert AUDIT.verdict({"dependencies": [sound, skipped]}) == said
    code, lines = AUDIT.verdict({"dependencies": [sound, skipped, bad]})
    assert (code, lines[0]) == (1, "failed: c 2 PYSEC-1 (fixed in 3)")
    assert lines[1].startswith("SKIPPED")
    for nothing in (None, {"dependencies": []}):
        code, lines = AUDIT.verdict(nothing)
        assert (code, lines[0][:7]) == (0, "SKIPPED")
