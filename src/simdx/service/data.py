"""Where the service keeps what must not be lost: tokens, the audit key, the audit log and its checkpoints.

A cache folder may be emptied by anyone at any time, so these lie in the platform's data folder. $SIMDX_DATA
names another; where only $SIMDX_HOME is set, everything stays inside it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import platformdirs

from simdx.errors import BadInput
from simdx.models.verify import home

_OURS = ("tokens.json", "audit.key", "audit.sqlite3")


def service_home() -> Path:
    if named := os.environ.get("SIMDX_DATA"):
        return Path(named)
    if os.environ.get("SIMDX_HOME"):
        return home() / "service"
    return Path(platformdirs.user_data_dir("simdx")) / "service"


def settled_home(tell: Callable[[str], None]) -> Path:
    """The same, once files that an earlier simdx left in the cache folder have been moved there or named."""
    old, new = home() / "service", service_home()
    if old == new or not _used(old):
        return new
    if os.environ.get("SIMDX_DATA") or _used(new):
        tell(f"tokens, key or audit log of an earlier service lie in {old}; this one uses {new}")
        return new
    try:
        new.parent.mkdir(parents=True, exist_ok=True)
        os.rename(old, new)  # all files at one moment, or none
    except OSError as error:
        raise BadInput(
            f"the service's tokens, key and audit log lie in {old} and belong in {new}: stop the service and "
            f"move the folder there, or set SIMDX_DATA={old} (moving them failed: {error.strerror})"
        ) from None
    tell(f"moved the service's tokens, key and audit log from {old} to {new}")
    return new


def _used(folder: Path) -> bool:
    return any((folder / name).exists() for name in _OURS)
