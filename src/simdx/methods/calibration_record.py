"""A calibration as it is stored: the numbers that turn scores into probabilities, and their basis.

sharpness   the exponent of the pooled likelihood
spread      uncertainty of log sharpness: answers are a mean over it, which makes them less extreme
share       of the regression in the first expert's score; the kernel has the rest (`experts`)
weight      of the second expert's log-likelihood relative to the first's
shift       log odds added to each label; known from labelled cases only
residual    log odds that depend on a text's direction: weights for each label and none of these
outside     a soft threshold on the features of another condition, in units of the panel's own simulated texts

Constants shared by all panels did not transfer to a new panel. So they are found for each bank
(`calibration`) and stored under the content that they were found for: a changed bank never gets an old
calibration.
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

# The sharpness towards which a bank's is moved, for the recipe alone and for the pool; the uncertainty of the
# resulting log sharpness; and the weight of the second expert. All chosen over the panels of results/experts.
SHARPNESS = 1.53
POOLED_SHARPNESS = 0.95
SPREAD = 0.27
SECOND_WEIGHT = 0.5
# Limits without a background: nothing represents none of these, so answers must be less confident.
UNOPPOSED_SHARPNESS, UNOPPOSED_POOLED = 1.0, 0.7
# A rehearsal below these does not support accepted answers.
LEAST_ACCURACY = 0.6
LEAST_AUROC = 0.6
UNKNOWN_ACCEPTED = 0.02  # share of held-out other conditions that an unmeasured panel may accept
LEAST_TEXTS = 100  # texts that a bank needs for accepted answers
# Share of a text's word pairs that occur in most texts of its label. It is .37 where texts repeat their
# description, at most .13 in banks by larger models, at most .01 in packaged banks.
MOST_REPEATED = 0.25
WIDEST_ECE = 0.15  # upper end of a measured calibration error above which nothing is accepted

# The threshold is found as if it were nearly a step. For real text it is uncertain by a third of a standard
# deviation of the features, so log odds rise more slowly.
STEP = 8.0
SLOPE = 3.0
# Mean probability of none of these for held-out simulated texts of the labels: about the accuracy that the
# outcome none of these costs. Set with the labelled cases of the packaged panels in view.
INSIDE_SHARE = 0.015
NONE_PRIOR = 0.05  # the prior mass of another condition that `--none-prior` is compared with
MOST_FOUND = 0.8  # the threshold rises until the held-out background's mean none of these is at most this
ENOUGH_OTHERS = 30  # texts of the background that this needs

Basis = Literal["transferred", "rehearsed", "measured"]
FILE = "calibration.json"  # beside a panel file


def thin(bank: Bank, *, labelled: bool = False) -> tuple[str, ...]:
    """Why no answer from a bank is accepted, whatever its rehearsal; `labelled`: near copies do not count."""
    few = len(bank.texts) < LEAST_TEXTS
    said = (f"the bank has {len(bank.texts)} texts (at least {LEAST_TEXTS} are needed)",) if few else ()
    return said if labelled else (*said, *copied(bank))


def copied(bank: Bank) -> tuple[str, ...]:
    """The reason against a bank whose texts are near copies.

    A rehearsal classifies the bank's own texts. If they copy one sentence, all are answered correctly, but a
    case in other words is answered none of these.
    """
    share = repeated(bank)
    if share <= MOST_REPEATED:
        return ()
    return (f"the simulated texts are too similar: most share {100 * share:.0f} % of their word pairs",)


def repeated(bank: Bank) -> float:
    """Share of the word pairs of a label's texts that occur in most of them; median over the labels."""
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
    """(N,) log odds of another condition, from (N, features); `prior`: its probability, if stated."""
    moved = 0.0 if prior is None else logit(prior) - logit(NONE_PRIOR)
    return SLOPE * (feature_score(features, scale) - scale.threshold) + moved


def feature_score(features: Float, scale: OutsideScale) -> Float:
    """(N,) the mean of the features, each in units of the panel's own texts."""
    return ((features - np.array(scale.centre)) / np.array(scale.spread)).mean(axis=1)


def scale_of(
    features: Float, others: Float | None = None, share: float = INSIDE_SHARE, found: float = MOST_FOUND
) -> OutsideScale:
    """Features in units of held-out texts of the labels, and the threshold they mostly stay below.

    If `others`, the features of the held-out background, nearly all lie above the threshold, the texts are
    too similar, as those of weak simulators are, and real texts will lie between. Then the threshold moves up
    until the share `found` of the others lies above it, at most half of the way to them.
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
    """The soft threshold at which these scores have this mean probability."""
    low, high = float(score.min()) - 5, float(score.max()) + 5
    for _ in range(60):
        middle = (low + high) / 2
        above = expit(STEP * (score - middle)).mean() > share
        low, high = (middle, high) if above else (low, middle)
    return (low + high) / 2


# For a bank with too few texts to rehearse: about the mean over the packaged panels and results/transfer.
TRANSFERRED_OUTSIDE = OutsideScale((-4.3, -2.7, -2.9), (2.4, 1.1, 0.55), 1.4)


@dataclass(frozen=True, slots=True)
class SentenceScale:
    """The excess (`World.excess`) above which a label does not explain a sentence."""

    level: float  # one in ten sentences of held-out simulated texts exceeds it
    scale: float  # mean distance of those above it: the tail is assumed to be exponential

    def threshold(self, sentences: int) -> float:
        """The threshold for a text of so many sentences: one held-out text in ten has a sentence above it."""
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
    rehearsed_sharpness: float | None = None  # of the bank alone, before it was moved towards other panels'
    shift: tuple[float, ...] = ()  # (K,) or nothing
    residual: tuple[tuple[float, ...], ...] = ()  # (K + 1, d) or nothing; of none of these last
    outside: OutsideScale | None = None  # of the panel's own background
    world: OutsideScale | None = None  # of the library
    unexplained: SentenceScale | None = None  # sentences that the leading label does not explain
    n: int = 0  # texts rehearsed, or cases measured
    writers: int = 0  # of the rehearsed texts
    accuracy: float | None = None  # on them, held out
    ece: float | None = None  # on them, cross-fitted; none of these included
    ece_interval: tuple[float, float] | None = None
    auroc: float | None = None  # background held out against labels held out
    found_outside: float | None = None  # mean none of these of the held-out background
    accept_from: float | None = None  # all but UNKNOWN_ACCEPTED of the held-out background stay below it
    checked: int = 0  # labelled cases that this calibration was tested on but not fitted to
    checked_ece: float | None = None
    checked_interval: tuple[float, float] | None = None
    confused: tuple[Confused, ...] = ()

    @cached_property
    def residual_weights(self) -> Float | None:
        """(K + 1, d); None if no labelled case was used."""
        return np.array(self.residual) if self.residual else None

    @property
    def digest(self) -> str:
        """Identity of the numbers that answers depend on; results found under them are stored with it."""
        learned = [str(self.residual)] if self.residual else []
        world = [] if self.world is None else [str((self.world, self.unexplained))]
        pool = f"{self.sharpness} {self.spread} {self.weight} {self.share}"
        return content_hash(pool, str(self.shift), str(self.outside), str(self.floor), *world, *learned)

    def refuted(self) -> tuple[str, ...]:
        """Measured reasons against accepting any answer."""
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
        """Why no answer under this calibration may be accepted: what has not been checked on labelled cases,
        and what was measured and is against it."""
        said = []
        if self.basis == "transferred":
            said.append("the calibration comes from other panels and was never checked on this one")
        if self.outside is None and self.world is None:
            said.append("the bank has no background, so none of these cannot be estimated")
        if self.outside is None and self.world is not None and self.basis == "rehearsed" and not self.checked:
            said.append("only the library represents none of these, and no labelled case has checked it")
        return (*said, *self.refuted())

    def failures_over(self, bank: Bank) -> tuple[str, ...]:
        """The same, with the faults of the bank itself."""
        return (*self.failures(), *thin(bank, labelled=self.checked_on_cases))

    @property
    def checked_on_cases(self) -> bool:
        return self.basis == "measured" or self.checked > 0

    @property
    def floor(self) -> float | None:
        """The probability below which nothing is accepted while no labelled case has been measured."""
        return self.accept_from if self.basis == "rehearsed" and not self.checked else None

    @property
    def error_on_cases(self) -> tuple[float | None, tuple[float, float] | None]:
        """The calibration error on labelled cases, with its interval; simulated texts do not count."""
        if self.basis == "measured":
            return self.ece, self.ece_interval
        return (self.checked_ece, self.checked_interval) if self.checked else (None, None)

    def sentence(self) -> str:
        """The basis of the calibration, in one sentence."""
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
    """The calibration error in words: the mean gap between stated probability and observed frequency."""
    if error is None:
        return f"calibration measured on {n} labelled cases"
    span = "" if interval is None else f" (95 % interval {100 * interval[0]:.0f} to {100 * interval[1]:.0f})"
    return f"calibration error {100 * error:.0f} % on {n} labelled cases{span}"


# --------------------------------------------------------------------------- kept by content


def address_of(bank: str, embedder: str, recipe: int, bandwidth: float | None, world: str = "") -> str:
    """The address of the calibration of this bank and embedder; `world`: the library's version."""
    weighed = [world] if world else []
    return content_hash("calibration", bank, embedder, str(recipe), str(bandwidth), *weighed)


def look_up(address: str, folder: Path | None = None) -> Calibration | None:
    """The one next to the panel file, else from the user's labelled cases, else packaged, else a rehearsal.

    A rehearsal stored by an earlier version must not hide a packaged calibration measured on labelled cases.
    Damaged files are ignored.
    """
    if folder is not None and (beside := read_file(folder / FILE).get(address)) is not None:
        return beside
    kept, packaged = read_file(_kept(address)).get(address), _packaged().get(address)
    if packaged is not None and (kept is None or not kept.checked_on_cases):
        return packaged
    return kept


def keep(address: str, calibration: Calibration, path: Path | None = None) -> None:
    """Stores it in a file next to the panel (which may hold several) or in the user's folder."""
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
