"""A panel compiled: everything that depends on panel, bank, embedder and recipe alone, as plain arrays.

Fitting takes a second or more, and is the same every time. So what is fitted is kept in one sealed file under
the hash of all it was made from: embeddings, counts of grams, rows and weights of both comparisons, distances
inside the bank. Another text, embedder or recipe has another address; a damaged file is passed over, with a
line, and written again. Packaged panels ship theirs. Real cases are never part of it.
"""

import logging
from collections.abc import Mapping
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import numpy as np

from simdx.abc.space import Space
from simdx.abc.typicality import Typicality
from simdx.disk import load_arrays, make_folder, save_arrays
from simdx.embedders.base import Embedder
from simdx.methods.background import BackgroundModel
from simdx.methods.comparison import Comparison, Summary
from simdx.methods.data import PanelData, named, part
from simdx.methods.fitted import RECIPE_VERSION
from simdx.methods.lexical import LexicalBasis
from simdx.methods.outside import Novelty
from simdx.models.verify import home
from simdx.types import Bank, EmbeddedBank, Float, Panel, content_hash

FORMAT = "1"  # raise it when the arrays or their names change
Arrays = Mapping[str, Float]


def address_of(bank: Bank, embedder: Embedder) -> str:
    """Of the texts in their order, since rows are kept by number."""
    against = "" if bank.against is None else bank.against.tobytes().hex()
    sizes = (FORMAT, str(RECIPE_VERSION), embedder.id, str(len(bank.labels)), str(len(bank.texts)), against)
    return content_hash("compiled", *sizes, bank.label_index.tobytes().hex(), *bank.texts, *bank.background)


def look_up(address: str) -> Arrays | None:
    """Packaged, else among the user's own."""
    name = f"{address}.safetensors"
    packaged = Path(str(files("simdx.methods"))) / "data" / "compiled" / name
    for path in (packaged, home() / "compiled" / name):
        found = load_arrays(path)
        if found is not None:
            return found
        if path.is_file():
            logging.getLogger("simdx").warning("simdx: '%s' is damaged: the panel is fitted again", path)
    return None


def prepared(panel: Panel, bank: Bank, embedder: Embedder, folder: Path | None = None) -> PanelData:
    """`PanelData.prepare`, from the compiled panel where there is one."""
    address = address_of(bank, embedder)
    found = look_up(address)
    if found is None:
        return replace(PanelData.prepare(panel, bank, embedder, folder), address=address)
    embedded = EmbeddedBank(
        found["vectors"], bank.label_index, len(panel.names), embedder.blocks, found.get("background")
    )
    return PanelData(panel, bank, embedded, embedder, folder=folder, compiled=found, address=address)


def keep(address: str, arrays: Arrays, folder: Path | None = None) -> Path:
    """Write a compiled panel, whole or not at all; raises CannotWrite."""
    path = (folder or home() / "compiled") / f"{address}.safetensors"
    make_folder(path.parent)
    save_arrays(path, arrays)
    return path


def panel_arrays(data: PanelData) -> dict[str, Float]:
    embedded = data.embedded
    others = {} if embedded.background is None else {"background": embedded.background}
    return {"vectors": embedded.vectors, **others, **named("lexicon", data.lexicon.arrays())}


def comparison_arrays(c: Comparison) -> dict[str, Float]:
    assert c.through is None  # what has no rows of its own in the lexicon is not compiled
    assert c.lexical.places is not None
    assert c.space.mean is not None
    joint = {} if c.joint is None else named("joint", summary_arrays(c.joint))
    return {
        "rows": c.space.rows.astype(np.int32),
        "places": c.lexical.places.astype(np.int32),
        "labels": c.label_index.astype(np.int32),
        "mean": c.space.mean,
        "bias": c.bias,
        **named("summary", summary_arrays(c.regressed)),
        **joint,
    }


def summary_arrays(summary: Summary) -> dict[str, Float]:
    embedded = {} if summary.embedded is None else {"embedded": summary.embedded}
    return {"lexical": summary.lexical, "bias": summary.bias, **embedded}


def comparison_from(arrays: Arrays, data: PanelData, bandwidth: float) -> Comparison:
    """What `Comparison.fit` made, weights and all."""
    embedded, lexicon = data.embedded, data.lexicon
    places, label = arrays["places"].astype(np.int64), arrays["labels"].astype(np.int64)
    others = [] if embedded.background is None else [embedded.background]
    vectors = np.concatenate([embedded.vectors, *others])[places]
    n_labels = int(label.max()) + 1
    space = Space.placed(
        vectors, label, arrays["rows"].astype(np.int64), n_labels, embedded.blocks, arrays["mean"]
    )
    assert lexicon.own is not None
    basis = LexicalBasis(lexicon, lexicon.own.at(places), places)
    joint = part(arrays, "joint")
    return Comparison(
        space, basis, None, space.bank.astype(np.float64), label, n_labels,
        summary_from(part(arrays, "summary")), bandwidth, arrays["bias"], None,
        summary_from(joint) if joint else None,
    )  # fmt: skip


def summary_from(arrays: Arrays) -> Summary:
    return Summary(arrays["lexical"], arrays.get("embedded"), arrays["bias"])


def opposition_from(arrays: Arrays, data: PanelData, bandwidth: float) -> BackgroundModel:
    comparison = comparison_from(arrays, data, bandwidth)
    share = np.bincount(comparison.label_index)[data.embedded.n_labels :]
    return BackgroundModel(comparison, np.log(share / share.sum()))


def novelty_from(arrays: Arrays, data: PanelData) -> Novelty:
    own, span = map(float, arrays["scale"])
    space = Novelty.space_of(data)
    return Novelty(data.embedder, space, Typicality.known(space.bank, arrays["reference"]), own, span)
