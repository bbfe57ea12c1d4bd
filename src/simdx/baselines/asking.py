"""The baselines that ask a language model, by name: what each would ask, without a model at hand."""

from __future__ import annotations

from simdx.baselines.elicited import ask_elicited
from simdx.baselines.ensemble import ask_ensemble
from simdx.baselines.fidelity import ask_fidelity
from simdx.baselines.interview import MakeAsk
from simdx.baselines.logits import ask_logits

ASKING: dict[str, MakeAsk] = {
    "logits": ask_logits,
    "elicited": ask_elicited,
    "ensemble": ask_ensemble,
    "fidelity": ask_fidelity,
}
