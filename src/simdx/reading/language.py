"""Whether a text is in English, the language that banks and embedders cover, told by its commonest words."""

from __future__ import annotations

import re

_WORDS = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
LOOKED_AT = 600  # characters

_ENGLISH_WORDS = """
    the of and to is was with that my for it on are this have has had been not but she his her at from which
    by be they you when after since because no yes does do did there their very feel feels any all can would
    about what some also pain left right days day history patient denies noted normal without i a in want need
"""
# German, French, Spanish, Italian, Portuguese, Dutch, the Nordic languages, Polish, Turkish, Finnish, Czech;
# no word that English has too.
_OTHER_WORDS = """
    der das und ist nicht ich ein eine einen seit mit habe haben auf bei dem den von zum zur im sich auch nach
    le les des du et est une un je dans depuis pas avec aux ai mais elle nous cette qui
    el los las y una que por tengo hace desde del muy pero sin esta mucha mucho
    il di che sono ho mi della nel anche molto giorni
    os um uma com dor sem tem não são há estou
    de het een ik heb heeft van mijn niet sinds zijn voor maar naar
    och att det som har inte jag ett men ikke jeg og har med til er
    na się jest od nie ma jsem že je se mám
    ve bir var için bu çok ben
    ja ei oli olen minulla ovat
"""
_ENGLISH = frozenset(_ENGLISH_WORDS.split())
_OTHER = frozenset(_OTHER_WORDS.split())


def is_english(text: str) -> bool:
    """Whether the text reads as English; a text of names and numbers alone is taken for it."""
    words = _WORDS.findall(text[:LOOKED_AT].lower())
    english = sum(word in _ENGLISH for word in words)
    other = sum(word in _OTHER for word in words)
    foreign_letters = sum(not word.isascii() for word in words)
    return other <= english and (foreign_letters <= english or foreign_letters < len(words) / 6)
