"""Attachments: the charsets notes are written in, and nothing that takes long."""

from __future__ import annotations

import base64
import encodings.aliases
import threading
import time

import pytest
from starlette.testclient import TestClient

from simdx.service import record_systems
from simdx.service.cds_text import read_chart, text_of
from tests.service.conftest import PANEL, TEXT

NOTE = "Lésion bleuâtre de la lèvre"


def document(data: bytes, content_type: str) -> dict[str, object]:
    attachment = {"contentType": content_type, "data": base64.b64encode(data).decode("ascii")}
    return {
        "resourceType": "DocumentReference",
        "status": "current",
        "subject": {"reference": "Patient/42"},
        "content": [{"attachment": attachment}],
    }


def read(data: bytes, content_type: str) -> str | None:
    return text_of(base64.b64encode(data).decode("ascii"), content_type) or None


@pytest.mark.parametrize(
    ("charset", "codec"),
    [("utf-8", "utf-8"), ("UTF-8", "utf-8-sig"), ("iso-8859-1", "latin-1"), ("ISO-8859-15", "iso-8859-15"),
     ("windows-1252", "cp1252"), ("utf-16", "utf-16"), ("utf-16le", "utf-16-le"), ("UTF-16BE", "utf-16-be"),
     ('"utf-8"', "utf-8"), ("iso_8859-1", "latin-1")],
)  # fmt: skip
def test_the_charsets_of_notes_are_read(charset: str, codec: str) -> None:
    assert read(NOTE.encode(codec), f"text/plain; charset={charset}") == NOTE


def test_without_a_charset_it_is_utf8() -> None:
    assert read(NOTE.encode(), "text/plain") == NOTE
    assert read(NOTE.encode(), "Text/Plain; format=flowed") == NOTE


def test_every_codec_that_is_not_for_notes_is_refused() -> None:
    for codec in {
        "punycode",
        "idna",
        "utf-7",
        "unicode-escape",
        "raw-unicode-escape",
        "undefined",
        "mbcs",
    } | {c for c in encodings.aliases.aliases.values() if c.endswith("_codec")}:
        assert read(b"plain words", f"text/plain; charset={codec}") is None


def test_a_megabyte_of_punycode_takes_no_time() -> None:
    """It took 33 seconds, on the event loop."""
    started = time.perf_counter()
    assert read(b"a" * 60_000 + b"-" + b"b" * 60_000, "text/plain; charset=punycode") is None
    assert time.perf_counter() - started < 0.5


def test_what_is_too_long_is_refused_before_it_is_decoded() -> None:
    from simdx.service.attachments import MAX_BYTES, Unreadable, decode, decode_base64

    assert decode(b"a" * MAX_BYTES, "text/plain") == "a" * MAX_BYTES
    with pytest.raises(Unreadable, match="at most"):
        decode(b"a" * (MAX_BYTES + 1), "text/plain")
    with pytest.raises(Unreadable, match="at most"):
        decode_base64("!" * (2 * MAX_BYTES), "text/plain")
    with pytest.raises(Unreadable, match="base64"):
        decode_base64("!", "text/plain")
    with pytest.raises(Unreadable, match="content type"):
        decode(b"a", "text/plain;" + " " * 1_000)
    with pytest.raises(Unreadable, match="not in the charset"):
        decode(b"\xff", "text/plain")


def test_the_event_loop_answers_while_a_note_is_read(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A note that takes long to read (here: until health was asked for) must not hold everyone."""
    reading, asked = threading.Event(), threading.Event()

    def slow(*chart: object) -> object:
        reading.set()
        assert asked.wait(20), "the event loop stood still while a note was read"
        return read_chart(*chart)  # type: ignore[arg-type]

    monkeypatch.setattr(record_systems, "read_chart", slow)
    call = {
        "hook": "patient-view",
        "hookInstance": "d1577c69-dfbe-44ad-ba6d-3e05e953b2ea",
        "context": {"userId": "Practitioner/1", "patientId": "42"},
        "prefetch": {"documents": document(TEXT.encode(), "text/plain")},
    }
    got: list[int] = []
    caller = threading.Thread(
        target=lambda: got.append(client.post(f"/cds-services/{PANEL}-patient-view", json=call).status_code)
    )
    caller.start()
    assert reading.wait(20)
    assert client.get("/healthz").status_code == 200
    asked.set()
    caller.join(30)
    assert got == [200]
