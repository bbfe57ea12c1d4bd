"""Banks on disk: a JSONL or Parquet file, or a folder whose manifest has the hashes of its files.

    folder/
      bank.jsonl         {"label", "text", …}           one simulated description a line
      background.jsonl   {"condition", "text", …}       optional: other conditions, same register
      manifest.json      format, panel, label counts, hashes; written last, so it means "complete"

Whatever is read is checked against the panel it is meant for; the first problem ends in BadInput with
the line number.
"""

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from simdx.disk import cannot_write, filling, seal_holds, sealed, write_atomically
from simdx.errors import BadInput
from simdx.models.registry import sha256
from simdx.panels.load import PanelSource, load_source
from simdx.rows import jsonl_rows, read_rows
from simdx.types import Bank, Label, Panel

FORMAT = 1
BANK_FILE = "bank.jsonl"
BACKGROUND_FILE = "background.jsonl"
MANIFEST_FILE = "manifest.json"
FEWEST_OF_LIBRARY = 8  # texts of a label that a bank from the library needs

LabelledText = tuple[str, str]  # label and text


# --------------------------------------------------------------------------- reading


def bank_for(
    panel: str | Path | Panel, bank: str | Path | Bank | None = None
) -> tuple[Panel, Bank, PanelSource | None]:
    """A panel with the given bank, else its own, and the other settings in the panel file."""
    if isinstance(panel, Panel):
        chosen, source = panel, None
    else:
        source = load_source(panel)
        chosen = source.panel
    if isinstance(bank, Bank):
        if bank.labels != chosen.names:
            raise BadInput(f"the bank's labels are not those of panel '{chosen.name}'")
        return chosen, bank, source
    if bank is not None:
        return chosen, read_bank(bank, chosen), source
    if source is None:
        raise BadInput("give a bank: a panel object ships none")
    return chosen, packaged_bank(source), source


def packaged_bank(source: PanelSource) -> Bank:
    """The bank next to a panel's YAML file; if there is none, a bank of library texts."""
    panel = source.panel
    parts = [_bank_rows(path, panel)[0] for path in source.banks] or [_library_rows(panel)]
    name = f"{panel.name}:" + ("+".join(path.stem for path in source.banks) or "library")
    background = background_texts(source.background, panel) if source.background else ()
    bank = assemble(panel, [row for part in parts for row in part], background, name)
    if not background:
        return bank
    bank = replace(bank, none_prior=source.none_prior)
    if not source.against:
        return bank
    against = np.repeat([path in source.against for path in source.banks], [len(part) for part in parts])
    described = set(bank.label_index[against].tolist())
    if silent := [repr(label) for i, label in enumerate(bank.labels) if i not in described]:
        raise BadInput(f"panel '{panel.name}': no bank of against_background describes {', '.join(silent)}")
    return replace(bank, against=against)


def _library_rows(panel: Panel) -> list[LabelledText]:
    """Texts of the library, which has to know every label."""
    from simdx import library  # a panel with a bank of its own does not need it

    found = {label.name: library.texts_for(label) for label in panel.labels}
    if unknown := [repr(name) for name, texts in found.items() if len(texts) < FEWEST_OF_LIBRARY]:
        raise BadInput(
            f"panel '{panel.name}' has no bank, and the library does not know {', '.join(unknown)}: "
            "give --bank, or have any chat model write one ('simdx bank ask --panel FILE')"
        )
    library.refuse_twice(panel.names)
    return [(name, text) for name, texts in found.items() for text in texts]


def read_bank(path: str | Path, panel: Panel) -> Bank:
    """A bank folder (verified first), or one JSONL or Parquet file, for that panel."""
    path = Path(path)
    if os.path.isdir(path):
        manifest = read_manifest(path)
        if manifest["panel_hash"] != panel.hash:
            raise BadInput(
                f"bank '{path.name}' was made for the panel '{manifest['panel']}' with other labels than "
                f"'{panel.name}': use its own panel"
            )
        refuse_damaged(path)
        return _bank_in(path, panel, manifest)
    if not os.path.isfile(path):
        raise BadInput(
            f"no bank at '{str(path)[:200]}': give a bank folder or a JSONL file with label and text"
        )
    if path.suffix.lower() == ".csv":
        mend = f"make a bank of it with 'simdx bank import --from {path.name}'"
        raise BadInput(f"'{path.name}' is a table: {mend}")
    labelled, background = _bank_rows(path, panel)
    return assemble(panel, labelled, tuple(background), path.stem)


def read_manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST_FILE
    if not path.is_file():
        raise BadInput(f"'{folder.name}' is not a finished bank: it has no {MANIFEST_FILE}")
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        known = {"format": int, "panel": str, "panel_hash": str, "labels": dict, "rejected": dict}
        known |= {"hash": str, "files": dict}
        counts = [*manifest["labels"].values(), *manifest["rejected"].values()]
        whole = all(isinstance(manifest[key], kind) for key, kind in known.items())
        if not whole or not all(isinstance(n, int) for n in counts):
            raise ValueError
    except (ValueError, KeyError, TypeError, AttributeError, OSError, RecursionError):
        raise BadInput(f"the {MANIFEST_FILE} of bank '{folder.name}' is damaged") from None
    if manifest["format"] != FORMAT:
        raise BadInput(f"bank '{folder.name}' has format {manifest['format']}; this version reads {FORMAT}")
    return manifest


def refuse_damaged(folder: Path) -> None:
    for problem in problems_of(folder):
        raise BadInput(f"bank '{folder.name}' is damaged: {problem}")


def problems_of(folder: Path) -> Iterator[str]:
    """The differences between a bank folder and its manifest; none if the bank is undamaged."""
    manifest = read_manifest(folder)
    if "seal" not in manifest:
        yield f"its {MANIFEST_FILE} carries no seal: build or import the bank again with this version"
    # Every byte is compared: a damaged byte without effect is a sign of further damage.
    # The seal comes first: injected content may not be encodable (half of a surrogate pair).
    elif not seal_holds(manifest) or (folder / MANIFEST_FILE).read_bytes() != _manifest_bytes(manifest):
        yield f"its {MANIFEST_FILE} was changed after it was written"
    for name, expected in manifest["files"].items():
        path = folder / name
        if name not in (BANK_FILE, BACKGROUND_FILE):
            yield f"its manifest lists an unknown file '{name}'"
        elif not path.is_file():
            yield f"{name} is missing"
        elif not os.access(path, os.R_OK):
            yield f"{name} cannot be read"
        elif sha256(path) != expected:
            yield f"{name} was changed after the manifest was written"
    if BANK_FILE not in manifest["files"]:
        yield f"its manifest does not list {BANK_FILE}"
        return
    try:
        bank = _bank_in(folder, Panel(manifest["panel"], tuple(map(Label, manifest["labels"]))), manifest)
    except BadInput as problem:
        yield str(problem)
        return
    if bank.counts != manifest["labels"]:
        yield "the counts per label differ from the manifest's"
    if bank.hash != manifest["hash"]:
        yield "the content hash differs from the manifest's"


def _bank_in(folder: Path, panel: Panel, manifest: Mapping[str, Any]) -> Bank:
    labelled, background = _bank_rows(folder / BANK_FILE, panel)
    if BACKGROUND_FILE in manifest["files"]:
        background += background_texts(folder / BACKGROUND_FILE, panel)
    bank = assemble(panel, labelled, tuple(background), folder.name)
    return replace(bank, rejected=manifest["rejected"])


def _bank_rows(path: Path, panel: Panel) -> tuple[list[LabelledText], list[str]]:
    """A file's texts of the panel's labels, and of other conditions if it has any."""
    labelled, background = [], []
    is_parquet = path.suffix.lower() == ".parquet"
    for number, row in read_rows(path) if is_parquet else jsonl_rows(path):
        text, label = row.get("text"), row.get("label")
        other = label is None and row.get("condition") is not None
        if not isinstance(text, str) or not text.strip() or not (other or isinstance(label, str)):
            raise BadInput(f"{path.name} line {number}: a bank row needs a non-empty 'label' and 'text'")
        if other:
            background.append(text)
        elif label in panel.names:
            labelled.append((str(label), text))
        else:
            named = f"panel '{panel.name}' ({', '.join(panel.names)})"
            raise BadInput(f"{path.name} row {number}: its label is not in {named}")
    return labelled, background


def background_texts(path: Path, panel: Panel | None = None) -> tuple[str, ...]:
    """The texts; refused if they leave out a condition of the panel's `ask_about`."""
    texts, said = [], set()
    for number, row in jsonl_rows(path):
        text = row.get("text")
        if not isinstance(text, str) or not text.strip():
            raise BadInput(f"{path.name} line {number}: a background row needs a non-empty 'text'")
        texts.append(text)
        said.add(str(row.get("condition") or text).casefold())
    if panel and (missing := [name for name in panel.ask_about if name.casefold() not in said]):
        raise BadInput(
            f"{path.name} describes no {', '.join(map(repr, missing))}, which panel '{panel.name}' "
            "asks about (ask_about): add texts with that 'condition'"
        )
    return tuple(texts)


def background_count(folder: Path, manifest: Mapping[str, Any]) -> int | None:
    """Texts of other conditions in the file the manifest names; None where that file cannot be read."""
    if BACKGROUND_FILE not in manifest["files"]:
        return 0
    try:
        return len(background_texts(folder / BACKGROUND_FILE))
    except BadInput:
        return None


def assemble(panel: Panel, rows: Sequence[LabelledText], background: tuple[str, ...], name: str) -> Bank:
    """The bank of these rows; refused if a label has none."""
    position = {label: i for i, label in enumerate(panel.names)}
    index = np.array([position[label] for label, _ in rows], dtype=np.int64)
    found = set(index.tolist())
    if missing := [repr(label) for label, i in position.items() if i not in found]:
        raise BadInput(f"bank '{name}' has no description of {', '.join(missing)}")
    texts = tuple(text for _, text in rows)
    return Bank(panel.name, panel.names, texts, index, background, name=name)


# --------------------------------------------------------------------------- writing


def write_bank(
    folder: Path, bank: Bank, panel: Panel, extra: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Write a bank folder, manifest last; `extra` keys join the manifest. Returns the manifest."""
    rows = [{"label": bank.labels[i], "text": t} for i, t in zip(bank.label_index, bank.texts, strict=True)]
    with filling(folder, BANK_FILE, BACKGROUND_FILE, MANIFEST_FILE):
        others = [{"text": text} for text in bank.background]
        return write_rows(folder, panel, rows, others, bank.rejected, extra or {})


def write_rows(
    folder: Path,
    panel: Panel,
    rows: Sequence[Mapping[str, Any]],
    others: Sequence[Mapping[str, Any]],
    rejected: Mapping[str, int],
    extra: Mapping[str, Any],
) -> dict[str, Any]:
    """Replace bank files, then the sealed manifest. Old files are removed first: an old manifest must not
    cover new files, and an unfinished bank must not leave its background behind."""
    for name in (MANIFEST_FILE,) if others else (MANIFEST_FILE, BACKGROUND_FILE):
        try:
            (folder / name).unlink(missing_ok=True)
        except OSError as error:
            raise cannot_write(folder / name, error) from None
    written = {BANK_FILE: write_jsonl(folder / BANK_FILE, rows)}
    if others:
        written[BACKGROUND_FILE] = write_jsonl(folder / BACKGROUND_FILE, others)
    texts = [(str(row["label"]), str(row["text"])) for row in rows]
    bank = assemble(panel, texts, tuple(str(row["text"]) for row in others), folder.name)
    manifest = sealed(
        {
            "format": FORMAT, "panel": panel.name, "panel_hash": panel.hash, "labels": bank.counts,
            "rejected": dict(rejected), "hash": bank.hash, "files": written, **extra,
        }
    )  # fmt: skip
    write_atomically(folder / MANIFEST_FILE, _manifest_bytes(manifest))
    return manifest


def _manifest_bytes(manifest: Mapping[str, Any]) -> bytes:
    return (json.dumps(manifest, indent=2, ensure_ascii=False) + "\n").encode("utf-8")


def write_jsonl(path: Path, rows: Iterable[Mapping[str, Any]]) -> str:
    """Write rows atomically; return the SHA-256 of the data in memory, not of the file on disk."""
    data = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode("utf-8")
    write_atomically(path, data)
    return hashlib.sha256(data).hexdigest()


# --------------------------------------------------------------------------- panel files


def name_bank(file: Path, bank: str, background: str | None) -> bool:
    """Set the bank in a panel file, replacing any it named; False if the user must do it."""
    named = r"^(?:banks|background|against_background):[ \t]*\S.*\n?"
    text = re.sub(named, "", file.read_text("utf-8"), flags=re.M).rstrip("\n")
    text += f"\nbanks: [{json.dumps(bank)}]\n"
    if background:
        text += f"background: {json.dumps(background)}\n"
    labels = load_source(file).panel.labels
    return rewrite_panel(file, text, lambda new: new.panel.labels == labels and len(new.banks) == 1)


def rewrite_panel(file: Path, text: str, holds: Callable[[PanelSource], bool]) -> bool:
    """Replace a panel file's text if `holds` is true of the new content; else nothing is written."""
    trial = file.with_name(f".{file.name}.trial")
    try:
        write_atomically(trial, text)
        if not holds(load_source(trial)):
            return False
    except BadInput:
        return False
    finally:
        trial.unlink(missing_ok=True)
    write_atomically(file, text)
    return True
