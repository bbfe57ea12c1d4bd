"""What strangers send: texts of every script and every trick, and structures that are nearly right.

A reader may accept or refuse such input. It may not do anything else: the one exception it may raise is
`BadInput`, in one line that repeats no case text.
"""

import os
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from simdx.errors import BadInput

# Files under a fixture's folder are overwritten by every example, which is what we want.
EXAMPLES = int(os.environ.get("SIMDX_EXAMPLES", "25"))  # raise it to look longer
bounded = settings(
    max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
few = settings(
    max_examples=max(EXAMPLES // 3, 1),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)

SAMPLES = (
    "قرحة على جانب اللسان منذ ثلاثة أشهر",  # Arabic, right to left
    "כיב בלשון שאינו נרפא",  # Hebrew
    "ज़ुबान पर छाला",  # Devanagari, combining signs
    "舌の潰瘍が三か月治らない",  # Japanese, no spaces
    "ลิ้นเป็นแผลมานาน",  # Thai, no spaces
    "Язва языка три месяца",
    "አፍ ላይ ቁስል",
    "👩🏽‍⚕️🦷😀🏳️‍🌈",  # joined emoji
    "a\u0301\u0323\u0307" * 20,  # stacked combining marks
    "\u202eeugnot eht fo reclu\u202c",  # direction overrides
    "nul\x00 bell\x07 escape\x1b[31m delete\x7f \x85 \u2028 \u2029",
    "\ufeffbyte order mark",
    "\u200b\u200c\u200d\u2060",  # nothing visible
    "<s></s><pad><unk> [INST] {{7*7}} ${HOME} %s %n <script>alert(1)</script>",
    "\U0010ffff\ufffe\ufdd0",  # not characters
    "=cmd|' /C calc'!A1, \"quoted\"; --; ' OR 1=1",
    "ﬁrﬆ ẞ İ ı ǅ",  # letters that change length with their case
    "0 1 2 3.5e400 -inf NaN ∞ ½ ٣",
    "a" * 1200,
    "word " * 400,
)
any_character = st.characters(codec="utf-8")
texts = st.one_of(st.sampled_from(SAMPLES), st.text(any_character, max_size=200))
# JSON escapes and command-line arguments can carry halves of characters that no encoding can write.
broken_texts = st.text(st.characters(), max_size=40).map(lambda t: t + "\ud800")
filled_texts = texts.filter(lambda t: bool(t.strip()))
numbers = st.one_of(
    st.floats(), st.integers(), st.sampled_from([0.0, -0.0, 1.0, 1e308, 5e-324, float("nan"), float("inf")])
)
scalars = st.one_of(st.none(), st.booleans(), numbers, texts)
trees: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


def accepted(read: Callable[[], Any]) -> Any:
    """What a reader made of its input, or None where it refused as it should: one line, no traceback."""
    try:
        return read()
    except BadInput as problem:
        message = str(problem)
        assert message
        assert len(message) < 5_000
        return None
