"""The ways a condition presents, chosen per request so that a bank covers them.

Left alone, a language model describes the textbook case over and over. A facet is one way in which
presentations differ (who, how long, how severe, where seen, which finding, typical or not); every
request of a label draws one value of each. The draw is stratified: over any run of requests each value
of a facet comes up as often as its share says, in an order of its own per label, so that rare but
decisive features appear even in a small bank. It depends on the label and the index alone, never on
what was answered before.

Shares matter: a bank is a sample of what is seen, and one that gives every rarity an equal place is a
sample of something else. So the typical presentation keeps half of the requests.
"""

import random
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from simdx.types import Panel, content_hash

Facets = Mapping[str, tuple[str, ...]]

# Where only the kind of text is known, nothing that makes texts differ is, but for how they begin.
_INITIALS = tuple("ABCDEFGHIKLMNOPRSTUVWY")


@cache
def _listed() -> Any:
    return yaml.safe_load(files("simdx.bank").joinpath("data", "facets.yaml").read_text(encoding="utf-8"))


def generic_facets(panel: Panel) -> Facets:
    """The built-in list for a panel's register.

    Texts that are not about illness have no patient, no severity, no duration and no place where one is seen.
    """
    register, listed = panel.register, _listed()
    general, setting, style = (listed[name] for name in ("general", "setting", "style"))
    if register == "general" and panel.description:
        return {"course": tuple(general["course"]), "initial": _INITIALS}
    if register == "general":
        parts = {name: general[name] for name in ("course", "focus")}
        parts |= {"style": style["general"], "length": general["length"]}
    else:
        parts = {name: listed[name] for name in ("who", "duration", "severity", "course", "focus")}
        parts["setting"] = setting.get(register, setting["plain"])
        parts["style"] = style.get(register, style["plain"])
    return {name: tuple(values) for name, values in parts.items()}


def facets_of(panel: Panel) -> Facets:
    """The generic list; a facet the panel names replaces its namesake or joins the others."""
    return {**generic_facets(panel), **{name: tuple(v) for name, v in panel.facets.items() if v}}


def choose(facets: Facets, stratum: str, index: int) -> dict[str, str]:
    """The values request `index` of a stratum (a label, or a background condition) draws."""
    chosen = {}
    for name, values in facets.items():
        # Every run of len(values) consecutive indices holds each value once, in its own shuffled order.
        cycle, place = divmod(index, len(values))
        order = list(range(len(values)))
        random.Random(content_hash("facet", f"{stratum}\x1f{name}", str(cycle))).shuffle(order)
        chosen[name] = values[order[place]]
    return chosen
