"""The text of an attachment in a record, decoded in time that grows with its length alone.

Whoever wrote the record chose the charset, and Python knows codecs that no note is written in: `punycode`
takes quadratic time. So a charset is taken from a list, and the length is looked at first.
"""

import base64
import binascii
import re

MAX_BYTES = 2_000_000  # of one attachment; a case is at most 100,000 characters, its markup may be longer
MAX_TYPE = 200  # characters of a content type

_CODECS = {
    "utf-8": "utf-8-sig", "utf8": "utf-8-sig", "us-ascii": "ascii", "ascii": "ascii",
    "utf-16": "utf-16", "utf-16le": "utf-16-le", "utf-16be": "utf-16-be",
    "latin1": "iso-8859-1", "cp1252": "cp1252",
    **{f"iso-8859-{n}": f"iso-8859-{n}" for n in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 13, 14, 15, 16)},
    **{f"windows-{n}": f"cp{n}" for n in range(1250, 1259)},
}  # fmt: skip


class Unreadable(ValueError):
    """An attachment that is too long, or not in the charset it names, or in one that is not on the list."""


def decode(data: bytes, content_type: str) -> str:
    """The text of an attachment's bytes, by the charset its content type names; UTF-8 where it names none."""
    if len(data) > MAX_BYTES:
        raise Unreadable(f"an attachment is at most {MAX_BYTES:,} bytes")
    codec = _CODECS.get(_charset(content_type))
    if codec is None:
        raise Unreadable("the attachment's charset is not one that notes are written in")
    try:
        return data.decode(codec)
    except UnicodeDecodeError:
        raise Unreadable("the attachment is not in the charset it names") from None


def decode_base64(data: str, content_type: str) -> str:
    """The same from base64, as FHIR carries it; refused by its length before anything is decoded."""
    if len(data) > MAX_BYTES * 3 // 2:  # four characters for three bytes, and line ends
        raise Unreadable(f"an attachment is at most {MAX_BYTES:,} bytes")
    try:
        raw = base64.b64decode(re.sub(r"\s", "", data), validate=True)
    except (binascii.Error, ValueError):
        raise Unreadable("the attachment is not base64") from None
    return decode(raw, content_type)


def _charset(content_type: str) -> str:
    if len(content_type) > MAX_TYPE:
        raise Unreadable(f"a content type is at most {MAX_TYPE} characters")
    for parameter in content_type.lower().split(";")[1:]:
        name, _, value = parameter.partition("=")
        if name.strip() == "charset":
            return value.strip().strip('"').replace("_", "-")
    return "utf-8"
