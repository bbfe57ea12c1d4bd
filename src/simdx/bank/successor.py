"""Whether a build may follow a finished bank in its folder: only where the new bank contains the old one.

A finished bank may have been cited, scored or shipped by its hash. More texts of the same kind extend it;
another simulator, other settings or smaller numbers would put another bank in its place, and that is
refused, since whoever wants it can have it in a folder of its own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from simdx.bank.files import MANIFEST_FILE, read_manifest
from simdx.bank.plan import BuildSettings
from simdx.bank.prompts import MAX_TOKENS, wording_of
from simdx.errors import BadInput
from simdx.types import Panel

# What a setting is called where it is given.
_NUMBERS = {"per_label": "--per-label", "background": "--background"}
_OPTIONS = {"max_tokens": "--max-new", "top_p": "--top-p"}


def refuse_lesser(out: Path, panel: Panel, model: str, settings: BuildSettings) -> None:
    """A finished bank at `out` stays as it is, unless the bank these settings make contains it."""
    if not (out / MANIFEST_FILE).exists():
        return
    manifest = read_manifest(out)
    before, simulator = manifest.get("settings"), manifest.get("simulator")
    if not isinstance(before, Mapping) or not isinstance(simulator, str):
        raise BadInput(f"'{out}' holds a bank that does not say how it was built: choose another --out")
    old, new = _effective(before, panel), _effective(asdict(settings), panel)
    if not old.get("background"):
        old["conditions"] = new["conditions"]  # of a background that is not there yet
    # Of the two only the old one is shown: a name just typed may have a key in its address.
    changed = [f"simulator {_short(simulator)}, not the one given"] if simulator != model else []
    if manifest.get("wording", 1) != wording_of(settings.voice, panel):
        changed.append("requests worded by another version of simdx")
    changed += [
        f"{_OPTIONS.get(name, f'--{name}')} {_short(old.get(name))}, not {_short(value)}"
        for name, value in new.items()
        if name not in _NUMBERS and old.get(name) != value
    ]
    if changed:
        raise BadInput(
            f"'{out}' holds a finished bank built with {'; '.join(changed)}: choose another --out, "
            "nothing was changed"
        )
    fewer = [
        f"{option} {old[name]}"
        for name, option in _NUMBERS.items()
        if isinstance(old.get(name), int) and new[name] < old[name]
    ]
    if fewer:
        raise BadInput(
            f"'{out}' holds a larger finished bank: give at least {' and '.join(fewer)}, or another --out; "
            "nothing was changed"
        )


def _effective(settings: Mapping[str, Any], panel: Panel) -> dict[str, Any]:
    """Settings as the manifest's JSON has them, the register's token limit in place of none."""
    plain: dict[str, Any] = json.loads(json.dumps(dict(settings)))
    plain.setdefault("conditions", [])  # banks from before a list could be given
    return {**plain, "max_tokens": plain.get("max_tokens") or MAX_TOKENS[panel.register]}


def _short(value: object) -> str:
    return str(value)[:80]
