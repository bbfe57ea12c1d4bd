"""The paper normalises the cosine between a case and each class into a distribution and finds it as accurate as D-SMC
and far worse calibrated. The same here, with words (TF-IDF) and with embeddings, and once more with the cosine put
through a softmax at the kernel's own bandwidth, which uses no label either: if that alone mends the calibration, the
fault was in the normalisation and not in the cosine. M-SMC appears with its hard threshold, as in the paper, and with
the soft kernel: the same softmax over simulations instead of classes."""

from collections.abc import Iterator
from typing import Any

from paper.measures import ablations
from paper.spec import Artefact, Block, Column, Table, keys, metrics, within

TFIDF, PLAIN, SOFT = "TF-IDF cosine, normalised", "embedding cosine, normalised", "embedding cosine, softmax"
ROWS: dict[str, tuple[str, Any]] = {
    TFIDF: ("tfidf", None), "TF-IDF cosine, softmax": ("tfidf", "soft"),
    PLAIN: ("centroid", None), SOFT: ("centroid", "soft"),
    "D-SMC": ("d-smc", None), "M-SMC": ("m-smc", None), "M-SMC, soft kernel": ("m-smc", "soft"),
}
THEIRS = {TFIDF: "TF-IDF cosine", PLAIN: "sentence cosine", "D-SMC": "D-SMC", "M-SMC": "M-SMC"}


def rows(b: Block) -> list[dict[str, Any]]:
    return [{"name": name, "method": THEIRS.get(name), "scores": one} for name, one in b.d.items()]


def share(plain: float, soft: float, reference: float) -> str:
    """How much of the distance from the plain to the reference the softmax covers."""
    return "none" if plain <= reference else f"{min(1.0, max(0.0, (plain - soft) / (plain - reference))):.0%}"


def claims(b: Block) -> Iterator[str]:
    plain, soft, m, d = (b.d[name] for name in (PLAIN, SOFT, "M-SMC", "D-SMC"))
    gap = b.whole["d_smc_minus_cosine"][b.panel]
    level = gap["accuracy"]["p"] is None or gap["accuracy"]["p"] >= 0.05
    yield (f"{b.panel}: the embedding cosine and D-SMC answer differently on {gap['answers_differ_on']} of "
           f"{plain['n']} cases and their accuracies ({plain['accuracy']:.3f}, {d['accuracy']:.3f}) "
           f"{'do not differ' if level else 'differ'} beyond chance.")
    yield (f"{b.panel}: normalised as they are, cosines have ECE {plain['ece']:.3f}, M-SMC {m['ece']:.3f}. Through a "
           f"softmax at the kernel's bandwidth, with no label used, the same cosines have ECE {soft['ece']:.3f} and "
           f"Brier {soft['brier']:.3f} (M-SMC {m['brier']:.3f}): the way of normalising accounts for "
           f"{share(plain['ece'], soft['ece'], m['ece'])} of that gap, and the ABC layer for no more than the rest.")


ARTEFACT = Artefact(
    "Is it only the cosine? Similarities alone against the ABC layer (table S12)", 400,
    lambda context: ablations.cosine_ablation(context, ROWS), each=within("scores"),
    tables=(Table("{panel}", rows,
                  (*keys("method=name"), Column("accuracy", "scores.accuracy"),
                   *metrics({"brier": "Brier", "ece": "ECE"}, paper_head="paper", paper_digits=2),
                   Column("entropy", "scores.entropy_bits"), Column("error AUROC", "scores.error_auroc")),
                  "95 % bootstrap over cases."),),
    claims=claims,
)
