"""The library keeps what its data sheet promises, and finds conditions as users name them."""

import re
from collections import Counter, defaultdict

import numpy as np
import pytest

from simdx import library
from simdx.library.search import plain
from simdx.types import Label

TEXTS, CONDITIONS = library.texts(), library.conditions()
MEDICAL = [c for c in CONDITIONS if c.medical]


def words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9']+", text.lower())


def test_the_sizes_of_the_data_sheet() -> None:
    registers = defaultdict(Counter)
    for text in TEXTS:
        registers[text.condition][text.register] += 1
    assert len(MEDICAL) >= 400
    assert len(CONDITIONS) - len(MEDICAL) >= 120
    large = [n for n in registers.values() if n["lay"] >= 16 and n["note"] >= 8]
    assert len(large) >= 200
    for c in CONDITIONS:
        n = registers[c.name]
        assert (n["lay"] >= 8 and n["note"] >= 4) if c.medical else n["topic"] >= 12, c.name


def test_every_text_is_written_for_itself() -> None:
    grams, openings = defaultdict(set), Counter()
    for i, text in enumerate(TEXTS):
        said = words(text.text)
        assert 5 <= len(said) <= 130, text
        openings[tuple(said[:3])] += 1
        for k in range(len(said) - 4):
            grams[tuple(said[k : k + 5])].add(i)
    shared = sum(len(found) for found in grams.values() if len(found) > 1)
    assert shared / sum(map(len, grams.values())) <= 0.03
    assert openings.most_common(1)[0][1] / len(TEXTS) <= 0.02
    assert len({text.text for text in TEXTS}) == len(TEXTS)


def test_no_text_names_its_condition() -> None:
    for text in TEXTS:
        c = library.condition(text.condition)
        said = f" {' '.join(words(text.text))} "
        for name in (c.name, *c.aliases) if c.medical else ():
            assert f" {' '.join(words(name))} " not in said, (c.name, text.text)


def test_what_is_packaged_beside_the_texts_is_of_these_texts() -> None:
    assert library.version() == library.digest()
    likeness, _ = library.library_likeness()
    names = [c.name for c in CONDITIONS]
    assert len(likeness.means) == len(names)
    some = TEXTS[::100]
    given = [text.text for text in some]
    said = library.words(given)
    seen = library.directions(library.embedded(given))
    score = likeness.scores(seen, said)
    own = [names.index(text.condition) for text in some]
    assert (score.argmax(axis=1) == own).mean() > 0.9  # of texts that it was made of
    pairs = zip(seen, said, strict=True)
    apart = np.concatenate([likeness.scores(one[None], [words]) for one, words in pairs])
    assert len(said) > 8  # few texts take another way
    np.testing.assert_allclose(score, apart, atol=1e-9)


def test_likeness_adds_a_direction_and_the_words_of_a_text() -> None:
    directions = np.eye(2)[[0, 0, 1, 1]]
    said = [{"cough", "fever"}, {"cough"}, {"rash"}, {"rash", "fever"}]
    made = library.Likeness.of(directions, said, np.array([0, 0, 1, 1]), 2)
    found = made.scores(np.array([[1.0, 0.0]]), [{"cough", "fever", "unheard"}])[0]
    cough, fever = np.log((1 + 0.03) / 0.03), np.log((0.5 + 0.03) / 0.03)
    assert found == pytest.approx([20 + cough + fever, fever])
    again = library.Likeness.from_arrays(made.arrays())
    assert again.scores(directions, said) == pytest.approx(made.scores(directions, said), abs=1e-4)


@pytest.mark.parametrize(
    ("said", "meant", "how"),
    [
        ("migraine", "migraine", "name"), ("Heart attack", "acute myocardial infarction", "alias"),
        ("haemorrhoids", "haemorrhoids", "name"), ("hemorrhoids", "haemorrhoids", "name"),
        ("G43", "migraine", "code"), ("pulmonary embolisms", "pulmonary embolism", "name"),
    ],
)  # fmt: skip
def test_a_condition_is_found_as_it_is_named(said: str, meant: str, how: str) -> None:
    found = library.meant_by(said)
    assert found is not None
    assert found.condition.name == meant
    assert found.how in (how, "alias")


def test_nothing_is_made_of_a_name_that_is_unknown() -> None:
    assert library.meant_by("frobnitis") is None
    assert library.texts_for(Label("frobnitis")) == ()
    assert max(Counter(plain(c.name) for c in CONDITIONS).values()) == 1  # one name, one condition
    assert len(library.suggestions("a clot in the lung", 3)) == 3
    assert "pulmonary embolism" in [m.condition.name for m in library.find("blood clot in the lung")]


def test_kinds_of_a_label_are_not_something_else_beside_it() -> None:
    beside = library.related_to([Label("arthritis"), Label("dengue")])
    assert {"arthritis", "rheumatoid arthritis", "gout", "dengue"} <= beside
    assert "malaria" not in beside
    assert "bacterial meningitis" not in beside
    # A code stands for those under it and not for those beside it.
    kinds = {"tension headache", "cluster headache"}
    overuse = library.related_to([Label("painkiller headache", icd10=("G44.4",))])
    assert "medication-overuse headache" in overuse
    assert overuse.isdisjoint(kinds)
    assert kinds <= library.related_to([Label("headaches", icd10=("G44",))])
    for name in ("stroke", "migraine"):  # a wide label is described by its kinds
        assert len(library.texts_for(Label(name))) >= 24


def test_the_nearest_condition_has_a_name() -> None:
    text = "Suddenly breathless after the flight, my calf is swollen and I coughed up blood"
    found = library.nearest(text, 5)
    assert "pulmonary embolism" in [m.condition.name for m in found]
    assert 0 < sum(m.score for m in found) <= 1
    without = library.nearest(text, 5, without=frozenset({"pulmonary embolism"}))
    assert "pulmonary embolism" not in [m.condition.name for m in without]
