"""A calibration as it is kept: the numbers that make probabilities of scores, and what they rest on.

sharpness   the exponent of the pooled likelihood
spread      how far its logarithm may be off: answers are a mean over that, and softer for it
share       of the regression in the first expert's score, the kernel having the rest (`experts`)
weight      of the second expert's log-likelihood beside the first's
shift       log odds added to each label; only labelled cases can tell them
residual    the same for texts of a kind: weights of a text's direction, for each label and none of these
outside     a soft threshold on the features of another condition, in units of the panel's own simulated texts

Constants that were one number for all panels did not transfer to a panel nobody tuned to. So they are found
for each bank (`calibration`), and kept by the content they were found for: a changed bank never meets an old
one.
"""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache, cached_property
from importlib.resources import files
from itertools import pairwise
from math import log
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import ConfigDict, Field, TypeAdapter

from simdx.abc.logs import expit, logit
from simdx.disk import make_folder, seal_holds, sealed, write_atomically
from simdx.models.registry import home
from simdx.types import Bank, Float, content_hash

# To which the sharpness of a bank is drawn, of the recipe alone and of the pool; how far the logarithm of
# what comes out may be off; and the weight of the second expert: chosen over the panels of results/experts.
SHARPNESS = 1.53
POOLED_SHARPNESS = 0.95
SPREAD = 0.27
SECOND_WEIGHT = 0.5
# Without a background nothing stands for none of these, and confidence has to pay for that.
UNOPPOSED_SHARPNESS, UNOPPOSED_POOLED = 1.0, 0.7
# A rehearsal below these has not shown that the bank can carry an accepted answer.
LEAST_ACCURACY = 0.6
LEAST_AUROC = 0.6
UNKNOWN_ACCEPTED = 0.02  # of held-out other conditions: what a panel that nobody has measured may let pass
LEAST_TEXTS = 100  # of a bank that may carry an accepted answer
# Word pairs that a label's texts have in common with most others of it. Texts that repeat their description
# have .37; banks by larger models at most .13, the packaged ones at most .01.
MOST_REPEATED = 0.25
WIDEST_ECE = 0.15  # upper end of a measured calibration error above which nothing is accepted

# Where the threshold lies is found as if it were nearly a step. Where it should lie for real text is not
# known to better than a third of a standard deviation of the features, so that log odds rise more slowly.
STEP = 8.0
SLOPE = 3.0
# Mean probability of none of these that held-out simulated texts of the labels get: about what an open list
# costs in accuracy. Set with the labelled cases of the packaged panels in view.
INSIDE_SHARE = 0.015
NONE_PRIOR = 0.05  # the prior mass of another condition that `--none-prior` is compared with
MOST_FOUND = 0.8  # mean none of these of the held-out background that no threshold is set to exceed
ENOUGH_OTHERS = 30  # texts of it that can say so

Basis = Literal["transferred", "rehearsed", "measured"]
FILE = "calibration.json"  # beside a panel file


def thin(bank: Bank, *, labelled: bool = False) -> tuple[str, ...]:
    """Why a bank carries no accepted answer, whatever its rehearsal found; labelled cases outweigh copies."""
    few = len(bank.texts) < LEAST_TEXTS
    said = (f"the bank has {len(bank.texts)} texts (at least {LEAST_TEXTS} are needed)",) if few else ()
    return said if labelled else (*said, *copied(bank))


def copied(bank: Bank) -> tuple[str, ...]:
    """Said of a bank whose texts are near copies.

    A rehearsal asks about the bank's own texts. Where they copy one sentence all is told apart, and a case
    in other words is none of these.
    """
    share = repeated(bank)
    if share <= MOST_REPEATED:
        return ()
    return (f"the simulated texts are too similar: most share {100 * share:.0f} % of their word pairs",)


def repeated(bank: Bank) -> float:
    """Share of the word pairs of a label's texts that stand in most of them; the middle one of the labels."""
    shares = []
    for k in range(len(bank.labels)):
        pairs = [list(pairwise(bank.texts[i].lower().split())) for i in np.flatnonzero(bank.label_index == k)]
        held = Counter(pair for text in pairs for pair in set(text))
        common = [held[pair] > len(pairs) / 2 for text in pairs for pair in text]
        shares.append(sum(common) / len(common) if len(pairs) > 2 and common else 0.0)
    return float(np.median(shares))


@dataclass(frozen=True, slots=True)
class OutsideScale:
    """What turns the features of another condition into log odds (`condition_log_odds`)."""

    centre: tuple[float, ...]  # (features,) the median of held-out simulated texts of the labels
    spread: tuple[float, ...]  # (features,) their standard deviation
    threshold: float


def condition_log_odds(features: Float, scale: OutsideScale, prior: float | None = None) -> Float:
    """(N,) of another condition, from (N, features); `prior` is its mass, where the user states one."""
    moved = 0.0 if prior is None else logit(prior) - logit(NONE_PRIOR)
    return SLOPE * (feature_score(features, scale) - scale.threshold) + moved


def feature_score(features: Float, scale: OutsideScale) -> Float:
    """(N,) the mean of the features, each in units of the panel's own texts."""
    return ((features - np.array(scale.centre)) / np.array(scale.spread)).mean(axis=1)


def scale_of(
    features: Float, others: Float | None = None, share: float = INSIDE_SHARE, found: float = MOST_FOUND
) -> OutsideScale:
    """Features in units of held-out texts of the labels, and the threshold they mostly stay below.

    Where `others`, the held-out background's, nearly all lie above it, the texts of a weak simulator are too
    like one another, and real ones will lie between: the threshold moves up until it finds the share
    `found` of the others, half of the way to them at most.
    """
    centre, spread = np.median(features, axis=0), np.maximum(features.std(axis=0), 1e-6)
    units, wide = (tuple(round(float(v), 6) for v in values) for values in (centre, spread))
    scale = OutsideScale(units, wide, threshold=0.0)
    threshold = threshold_at(feature_score(features, scale), share)
    if others is not None and len(others) >= ENOUGH_OTHERS:
        score = feature_score(others, scale)
        half_way = (threshold + float(np.median(score))) / 2
        threshold = max(threshold, min(half_way, threshold_at(score, found)))
    return replace(scale, threshold=round(threshold, 6))


def threshold_at(score: Float, share: float) -> float:
    """Where a soft threshold gives these scores this mean probability."""
    low, high = float(score.min()) - 5, float(score.max()) + 5
    for _ in range(60):
        middle = (low + high) / 2
        above = expit(STEP * (score - middle)).mean() > share
        low, high = (middle, high) if above else (low, middle)
    return (low + high) / 2


# Of a bank with too few texts to rehearse: about the mean of the packaged panels' and of results/transfer.
TRANSFERRED_OUTSIDE = OutsideScale((-4.3, -2.7, -2.9), (2.4, 1.1, 0.55), 1.4)


@dataclass(frozen=True, slots=True)
class SentenceScale:
    """The excess (`World.excess`) above which a label does not explain a sentence."""

    level: float  # which one in ten sentences of held-out simulated texts exceeds
    scale: float  # their mean distance above it: the tail is assumed to be exponential

    def threshold(self, sentences: int) -> float:
        """For a text of so many sentences: one held-out text in ten has a sentence above it."""
        return self.level + self.scale * log(max(sentences, 1))


@dataclass(frozen=True, slots=True)
class Confused:
    """Two labels whose held-out texts are often given to each other."""

    first: str
    second: str
    share: float  # of the texts of both


@dataclass(frozen=True)
class Calibration:
    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    basis: Basis = "transferred"
    sharpness: Annotated[float, Field(gt=0, lt=100)] = SHARPNESS
    spread: Annotated[float, Field(ge=0, lt=5)] = 0.0
    weight: Annotated[float, Field(ge=0, lt=10)] = 0.0
    share: Annotated[float, Field(gt=0, lt=1)] = 0.5
    rehearsed_sharpness: float | None = None  # of the bank by itself, before it was drawn to other panels'
    shift: tuple[float, ...] = ()  # (K,) or nothing
    residual: tuple[tuple[float, ...], ...] = ()  # (K + 1, d) or nothing; of none of these last
    outside: OutsideScale | None = None  # of the panel's own background
    world: OutsideScale | None = None  # of the library
    unexplained: SentenceScale | None = None  # sentences that the leading label does not explain
    n: int = 0  # texts rehearsed, or cases measured
    writers: int = 0  # of the rehearsed texts
    accuracy: float | None = None  # on them, held out
    ece: float | None = None  # on them, cross-fitted; of none of these included
    ece_interval: tuple[float, float] | None = None
    auroc: float | None = None  # background held out against labels held out
    found_outside: float | None = None  # mean none of these of the held-out background
    accept_from: float | None = None  # surer than all but UNKNOWN_ACCEPTED of the held-out background
    checked: int = 0  # labelled cases that this calibration was tried on, and had no part in
    checked_ece: float | None = None
    checked_interval: tuple[float, float] | None = None
    confused: tuple[Confused, ...] = ()

    @cached_property
    def residual_weights(self) -> Float | None:
        """(K + 1, d); None where no labelled case has told any."""
        return np.array(self.residual) if self.residual else None

    @property
    def digest(self) -> str:
        """Identity of the numbers that answers depend on, for what was found under them."""
        learned = [str(self.residual)] if self.residual else []
        world = [] if self.world is None else [str((self.world, self.unexplained))]
        pool = f"{self.sharpness} {self.spread} {self.weight} {self.share}"
        return content_hash(pool, str(self.shift), str(self.outside), str(self.floor), *world, *learned)

    def refuted(self) -> tuple[str, ...]:
        """What was looked at and speaks against accepting any answer."""
        said = []
        if self.accuracy is not None and self.accuracy < LEAST_ACCURACY:
            whose = "the labelled cases" if self.basis == "measured" else "the bank's texts, held out,"
            said.append(f"only {self.accuracy:.0%} of {whose} were classified correctly")
        if self.auroc is not None and self.auroc < LEAST_AUROC:
            said.append(f"background texts are poorly recognised (AUROC {self.auroc:.2f})")
        if self.basis == "measured" and self.ece is None:
            said.append(f"{self.n} labelled cases are too few to say how far the calibration is off")
        if self.ece_interval is not None and self.ece_interval[1] > WIDEST_ECE:
            said.append(f"the calibration error may be as large as {self.ece_interval[1]:.2f}")
        return tuple(said)

    def failures(self) -> tuple[str, ...]:
        """Why no answer under this calibration may simply be accepted: what nobody has looked at, so that
        nothing is accepted before labelled cases have, and what was looked at and speaks against it."""
        said = []
        if self.basis == "transferred":
            said.append("the calibration comes from other panels and was never checked on this one")
        if self.outside is None and self.world is None:
            said.append("the bank has no background, so none of these cannot be estimated")
        if self.outside is None and self.world is not None and self.basis == "rehearsed" and not self.checked:
            said.append("only the library represents none of these, and no labelled case has checked it")
        return (*said, *self.refuted())

    def failures_over(self, bank: Bank) -> tuple[str, ...]:
        """The same, with what is wrong with the bank itself."""
        return (*self.failures(), *thin(bank, labelled=self.checked_on_cases))

    @property
    def checked_on_cases(self) -> bool:
        return self.basis == "measured" or self.checked > 0

    @property
    def floor(self) -> float | None:
        """The probability below which nothing is accepted, as long as no labelled case has been looked at."""
        return self.accept_from if self.basis == "rehearsed" and not self.checked else None

    @property
    def error_on_cases(self) -> tuple[float | None, tuple[float, float] | None]:
        """The calibration error on labelled cases, with its interval: what simulated texts gave is none."""
        if self.basis == "measured":
            return self.ece, self.ece_interval
        return (self.checked_ece, self.checked_interval) if self.checked else (None, None)

    def sentence(self) -> str:
        """What the calibration rests on, in one sentence."""
        if self.basis == "transferred":
            return "calibration taken from other panels, not checked on this one"
        if self.basis == "measured":
            if self.ece is None:
                return f"calibration measured on {self.n} labelled cases, too few to say how far it is off"
            return _measured(self.n, *self.error_on_cases)
        if self.checked:
            return _measured(self.checked, *self.error_on_cases)
        overlap = ""
        if self.confused:
            pair = self.confused[0]
            overlap = f"; '{pair.first}' and '{pair.second}' overlap, so answers are less confident"
        return f"calibration rehearsed on {self.n} simulated texts, not checked on real cases{overlap}"


def _measured(n: int, error: float | None, interval: tuple[float, float] | None) -> str:
    """The calibration error, the mean gap between stated probabilities and what came true, in words."""
    if error is None:
        return f"calibration measured on {n} labelled cases"
    span = "" if interval is None else f" (95 % interval {100 * interval[0]:.0f} to {100 * interval[1]:.0f})"
    return f"calibration error {100 * error:.0f} % on {n} labelled cases{span}"


# --------------------------------------------------------------------------- kept by content


def address_of(bank: str, embedder: str, recipe: int, bandwidth: float | None, world: str = "") -> str:
    """Where the calibration of this bank under this embedder is kept; `world`: the library's version."""
    weighed = [world] if world else []
    return content_hash("calibration", bank, embedder, str(recipe), str(bandwidth), *weighed)


def look_up(address: str, folder: Path | None = None) -> Calibration | None:
    """Beside the panel file, else the user's own labelled cases, else packaged, else a kept rehearsal.

    A rehearsal that an earlier version kept must not hide what a package measured on labelled cases.
    Damaged files are passed over.
    """
    if folder is not None and (beside := read_file(folder / FILE).get(address)) is not None:
        return beside
    kept, packaged = read_file(_kept(address)).get(address), _packaged().get(address)
    if packaged is not None and (kept is None or not kept.checked_on_cases):
        return packaged
    return kept


def keep(address: str, calibration: Calibration, path: Path | None = None) -> None:
    """In a file beside the panel, which may hold those of several banks, or among the user's own."""
    target = path or _kept(address)
    held = read_file(target) if path is not None else {}
    text = file_text({**held, address: calibration})
    make_folder(target.parent)
    write_atomically(target, text)


def file_text(held: Mapping[str, Calibration]) -> str:
    return json.dumps(sealed({"calibrations": {a: asdict(c) for a, c in held.items()}}), indent=1) + "\n"


def read_file(path: Path) -> dict[str, Calibration]:
    """What a file holds; nothing where it is absent or was changed by hand."""
    try:
        return _parse(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _parse(text: str) -> dict[str, Calibration]:
    """Raises ValueError, TypeError or KeyError on anything that `file_text` did not write."""
    data = json.loads(text)
    return _reader().validate_python(data["calibrations"]) if seal_holds(data) else {}


@cache
def _reader() -> TypeAdapter[dict[str, Calibration]]:
    return TypeAdapter(dict[str, Calibration])


def _kept(address: str) -> Path:
    return home() / "calibrations" / f"{address}.json"


@cache
def _packaged() -> dict[str, Calibration]:
    return _parse(files("simdx.methods").joinpath("data", FILE).read_text(encoding="utf-8"))
