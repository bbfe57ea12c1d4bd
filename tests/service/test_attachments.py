"""Attachments: the charsets notes are written in, and nothing that takes long."""

import base64
import encodings.aliases
import threading

import pytest
from starlette.testclient import TestClient

from simdx.service import cds
from simdx.service.chart import MAX_BYTES, read_chart, text_of
from tests.service.test_cds import VIEW, invocation

NOTE = "Lésion bleuâtre de la lèvre"


def read(data: bytes, content_type: str) -> str | None:
    return text_of(base64.b64encode(data).decode("ascii"), content_type) or None


@pytest.mark.parametrize(
    ("kind", "codec"),
    [("; charset=utf-8", "utf-8"), ("; charset=UTF-8", "utf-8-sig"), ("; charset=iso-8859-1", "latin-1"),
     ("; charset=ISO-8859-15", "iso-8859-15"), ("; charset=windows-1252", "cp1252"),
     ("; charset=utf-16", "utf-16"), ("; charset=utf-16le", "utf-16-le"), ("; charset=UTF-16BE", "utf-16-be"),
     ('; charset="utf-8"', "utf-8"), ("; charset=iso_8859-1", "latin-1"), ("", "utf-8"),
     ("; format=flowed", "utf-8")],
)  # fmt: skip
def test_the_charsets_of_notes_are_read(kind: str, codec: str) -> None:
    assert read(NOTE.encode(codec), f"Text/Plain{kind}") == NOTE


def test_every_codec_that_is_not_for_notes_is_refused() -> None:
    """A megabyte of punycode took 33 seconds, on the event loop."""
    odd = ["punycode", "idna", "utf-7", "unicode-escape", "raw-unicode-escape", "undefined", "mbcs"]
    for codec in (*odd, *(c for c in encodings.aliases.aliases.values() if c.endswith("_codec"))):
        assert read(b"plain words", f"text/plain; charset={codec}") is None


def test_what_is_too_long_is_refused_before_it_is_decoded() -> None:
    assert text_of(b"a" * MAX_BYTES, "text/plain") == "a" * MAX_BYTES
    for data, kind in (
        (b"a" * (MAX_BYTES + 1), "text/plain"), ("YWJj" * MAX_BYTES, "text/plain"),
        (base64.b64encode(b"a" * (MAX_BYTES + 1)).decode(), "text/plain"), ("!", "text/plain"),
        (b"a", "text/plain;" + " " * 1_000), (b"\xff", "text/plain"),
    ):  # fmt: skip
        assert text_of(data, kind) == ""


def test_the_event_loop_answers_while_a_note_is_read(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A note that takes long to read (here: until health was asked for) must not hold everyone."""
    reading, asked = threading.Event(), threading.Event()

    def slow(*chart: object) -> object:
        reading.set()
        assert asked.wait(20), "the event loop stood still while a note was read"
        return read_chart(*chart)

    monkeypatch.setattr(cds, "read_chart", slow)
    got: list[int] = []
    caller = threading.Thread(target=lambda: got.append(client.post(VIEW, json=invocation()).status_code))
    caller.start()
    assert reading.wait(20)
    assert client.get("/healthz").status_code == 200
    asked.set()
    caller.join(30)
    assert got == [200]
