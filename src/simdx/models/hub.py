"""Whether the Hugging Face libraries may reach their hub: only inside `hub(allowed=True)`.

They read their switches once, when they are first imported, so the switches are set here before that. Every
import of them in this package stands inside `with hub(...)`; a test holds the source to it.
"""

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from simdx.errors import BadInput, NotAllowed

_OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
_SILENT = ("HF_HUB_DISABLE_TELEMETRY", "DISABLE_TELEMETRY", "DO_NOT_TRACK", "HF_HUB_DISABLE_UPDATE_CHECK")
# What the user asked for, noted before the switches are set: it closes the hub even where we would open it.
ASKED_OFFLINE = any(os.environ.get(name, "").upper() in {"1", "ON", "YES", "TRUE"} for name in _OFFLINE)
NO_HUB = "the Hugging Face hub cannot be reached"
_HELD = ("config.json", "modules.json")  # one of them is in every model the hub's own cache holds
_one_at_a_time = threading.RLock()  # the switches are the process's, not the thread's


@contextmanager
def hub(*, allowed: bool) -> Iterator[None]:
    """Import and use the libraries inside. The hub stays closed afterwards where we were the first to import
    them; a program that had them before gets its own setting back."""
    with _one_at_a_time:
        first = "huggingface_hub" not in sys.modules
        if first:
            os.environ.update(dict.fromkeys((*_OFFLINE, *_SILENT), "1"))
        from huggingface_hub import constants

        before = True if first else constants.HF_HUB_OFFLINE
        constants.HF_HUB_DISABLE_TELEMETRY = True
        constants.HF_HUB_OFFLINE = ASKED_OFFLINE or not allowed
        try:
            yield
        finally:
            constants.HF_HUB_OFFLINE = before


def hub_answers() -> bool:
    """A name look-up: without a network the hub's client would retry for half a minute.

    A proxy or a mirror looks names up itself.
    """
    import socket

    if ASKED_OFFLINE:
        return False
    if any(os.environ.get(name) for name in ("HTTPS_PROXY", "https_proxy", "HF_ENDPOINT")):
        return True
    with suppress(OSError):
        return bool(socket.getaddrinfo("huggingface.co", 443))
    return False


def may_ask(name: str, allow_remote: bool) -> bool:
    """True if the hub may be asked for this model name; announces it first.

    What the hub's own cache holds is taken from there. Anything else leaves this machine as a name, so it
    needs permission and a network: a panel file may name a model and cannot allow that.
    """
    with hub(allowed=False):
        from huggingface_hub import try_to_load_from_cache
        from huggingface_hub.errors import HFValidationError

        try:
            if any(isinstance(try_to_load_from_cache(name, file), str) for file in _HELD):
                return False
        except HFValidationError:
            raise BadInput(f"'{name[:80]}' is neither a folder nor a hub name OWNER/NAME") from None
    if not allow_remote:
        raise NotAllowed(
            f"model '{name[:80]}' is not here, and the Hugging Face hub would be asked for it: add "
            "--allow-remote (allow_remote=True) to permit it"
        )
    if not hub_answers():
        raise BadInput(f"model '{name[:80]}' is not here, and {NO_HUB}")
    announce(name)
    return True


def announce(name: str) -> None:
    print(f"simdx: asking the Hugging Face hub for {name[:80]!r}", file=sys.stderr, flush=True)
