"""A bank from a chat model: prompts without case text, replies in the habits of several models."""

from pathlib import Path

import pytest

from simdx.bank.chat import STORE, gather, judge, prompts, read_reply, wanted
from simdx.bank.files import problems_of, read_bank
from simdx.errors import BadInput
from simdx.types import NONE_OF_THESE, Label, Panel
from tests.conftest import ROOT

REPLIES = sorted((ROOT / "tests" / "data" / "replies").iterdir())
HEADACHES = Panel(
    "headaches",
    (
        Label("migraine", description="One-sided throbbing with nausea."),
        Label("tension headache", aliases=("tension-type headache",)),
        Label("cluster headache"),
    ),
    register="patient",
)


@pytest.mark.parametrize("path", REPLIES, ids=lambda p: p.name)
def test_a_reply_is_read_however_it_is_wrapped(path: Path) -> None:
    """Every recorded reply has three texts of each label and two of other conditions, and nothing else."""
    rows, _ = read_reply(path.read_text("utf-8"), HEADACHES)
    counts = {name: sum(row.label == name for row in rows) for name in HEADACHES.names}
    assert counts == dict.fromkeys(HEADACHES.names, 3)
    others = [row for row in rows if row.label is None]
    assert len(others) == 2
    found = judge(rows, HEADACHES, 3)
    assert not found.rejected
    assert set(found.missing) == {NONE_OF_THESE}
    for row in rows:
        assert row.text[0].isalpha()
        assert row.text[-1] == "."
        assert "|" not in row.text


@pytest.mark.parametrize(
    "reply",
    [
        "### Label: Migraine\n{0}\n{1}\n\n### tension-type headache – 5 texts\n1) {2}",
        '{{"migraine": [{{"text": "{0}", "tone": 1}}, "{1}"], "tension_headache": {{"texts": ["{2}"]}}}}',
        '[{{"label": "migraine", "texts": ["{0}", "{1}"]}}, {{"label": "Tension Headache", "text": "{2}"}}',
        '### Migraine\n```json\n["{0}", "{1}"]\n```\n### Tension headache\n```json\n["{2}"]\n```\nVoilà!',
        "- label: migraine\n text: {0}\n- label: migraine\n text: {1}\n- label: tension headache\n text: {2}",
        "Migraine 1: {0}\nMigraine 2: {1}\nTension headache 1: {2}",
        "Three texts for migraine:\n* {0}\n* {1}\n\nOne for tension headache:\n* {2}\n\nShall I go on?",
        "[migraine] {0}\n[migraine] {1}\n[tension headache] {2}\nI hope this helps [1].",
        "migraine\t{0}\nmigraine\t{1}\ntension headache\t{2}",
        "## Migraine\n### Typical\n1. {0}\n### Early\n2. {1}\n## Tension headache\n1. {2}\n## Sinus\n1. {0}",
        "**Migraine:** {0}\n\n**Migraine:** {1}\n\n**Tension headache:** {2}\n\ncluster headache | It wakes",
        "Sure!\n<migraine><text>{0}</text><text>{1}</text></migraine>\n<tension_headache><text>{2}</text>"
        "</tension_headache>\nShall I go on?",
        '```xml\n<?xml version="1.0"?>\n<labels>\n<label name="migraine">\n<item>{0}</item>\n'
        "<item id=\"2\">{1}</item>\n</label>\n<label name='Tension Headache'><item>{2}</item></label>\n"
        "</labels>\n```",
        '<texts><text label="migraine">{0}</text><text label="migraine">{1}</text>'
        '<text for="tension headache">{2}',
        "<row><label>migraine</label><text><![CDATA[{0}]]></text></row>\n"
        "<row><label>migraine</label><text>{1}</text></row>\n"
        "<row><text>{2}</text><label>tension headache</label></row>",
        "<migraine>\n1. {0}\n2. {1}\n</migraine>\n<tension headache>\n{2}\n</tension headache>\n<a>{0}</a>",
        "<migraine><text_1>{0}</text_1><text_2>{1}</text_2></migraine>"
        "<tension_headache><text>{2}</text><text>It is",
    ],
)
def test_further_habits(reply: str) -> None:
    texts = (
        "Half my head pounds since breakfast and light hurts.",
        "One temple throbs, and I was sick twice, before noon.",
        "A tight band sits around my whole head every evening.",
    )
    rows, _ = read_reply(reply.format(*texts), HEADACHES)
    labels = ("migraine", "migraine", "tension headache")
    assert [(row.label, row.text) for row in rows] == list(zip(labels, texts, strict=True))


def test_tags_of_other_conditions_and_of_other_panels() -> None:
    others = "<none_of_these><sinusitis><text>My face &amp; cheeks ache.</text></sinusitis>{}</none_of_these>"
    more = '<text condition="gout">My toe<br>is <b>hot</b> &lt; 3 days.</text>'
    assert read_reply(others.format(more), HEADACHES)[0] == [
        (None, "sinusitis", "My face & cheeks ache."),
        (None, "gout", "My toe is hot < 3 days."),
    ]
    for other in ("<gout><text>{}</text></gout>", '<label name="gout"><item>{}</item></label>'):
        assert read_reply(other.format("My toe is hot."), HEADACHES) == ([], {"gout": 1})


def test_tags_are_read_as_text_alone() -> None:
    """No entity is looked up, and no depth or length is too much."""
    entity = '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]>'
    said = "<migraine><text>It throbs &x; here.</text></migraine>"
    assert read_reply(entity + said, HEADACHES)[0] == [("migraine", "", "It throbs &x; here.")]
    for part in ("<a>", "<a b=", "</a>", "<a></b>", "<a>b", "<migraine>", "<text", " ", "&#"):
        assert read_reply(f"<migraine {part * 100_000}</x>", HEADACHES)[0] == []


def test_what_is_no_reply_gives_no_text_and_keeps_labels_apart() -> None:
    for reply in ("", "I'm sorry, I can't help with that.", "[1] {} []", "{" * 5000, "[[[[" * 3000):
        assert read_reply(reply, HEADACHES)[0] == []
    behind = (
        "text: Half my head pounds.\nlabel: migraine\n\ntext: It wakes me at two.\nlabel: cluster headache"
    )
    assert read_reply(behind, HEADACHES)[0] == []  # a label behind its text must not fall on the next one
    two = Panel("d", (Label("diabetes (type 1)"), Label("diabetes (type 2)")))
    rows, _ = read_reply("diabetes (type 2) | Always thirsty.\ndiabetes | Tired.", two)
    assert [row.label for row in rows] == ["diabetes (type 2)"]


def test_the_prompt_asks_for_what_is_missing() -> None:
    (asked,) = prompts(HEADACHES, wanted(HEADACHES, 25))
    assert "- migraine: One-sided throbbing with nausea." in asked
    assert '- 25 for "cluster headache"' in asked
    assert '- 20 for "none of these": each about a different condition' in asked
    assert "tension-type headache" in asked  # a word that no text may have
    many = Panel("many", tuple(Label(f"label {i}") for i in range(12)), register="general")
    several = prompts(many, wanted(many, 25))
    assert len(several) == 4
    for i in range(12):
        assert sum(f'for "label {i}"' in prompt for prompt in several) >= 1
    assert prompts(HEADACHES, {}) == []
    # The prompt itself is no reply.
    assert read_reply(asked, HEADACHES)[0] == []
    conversation = f"You said:\n{asked}\nThe model said:\nmigraine | It throbs on one side.\n"
    assert [row.text for row in read_reply(conversation, HEADACHES)[0]] == ["It throbs on one side."]


def test_replies_add_up_and_the_same_one_twice_changes_nothing(tmp_path: Path) -> None:
    folder, replies = tmp_path / "chat", [path.read_text("utf-8") for path in REPLIES]
    first = gather(HEADACHES, replies[:1], folder, 5)
    assert first.missing == {"migraine": 2, "tension headache": 2, "cluster headache": 2, NONE_OF_THESE: 18}
    both = gather(HEADACHES, replies[1:3], folder, 5)
    assert set(both.missing) == {NONE_OF_THESE}
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    gather(HEADACHES, replies[1:2], folder, 5)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert list(problems_of(folder)) == []
    assert len(read_bank(folder, HEADACHES).background) == len(both.background)


def test_texts_that_name_a_label_and_copies_are_rejected(tmp_path: Path) -> None:
    reply = (
        "migraine | My migraine is back and half of my head is throbbing again today.\n"
        "migraine | The doctor spoke of a cluster headache but my head throbs on one side only.\n"
        "none of these (tension headache) | A tight band around the head since the morning, both sides.\n"
        "cluster headache | At two every night a stabbing pain behind one eye wakes me up, it waters.\n"
        "cluster headache | At two every night a stabbing pain behind one eye wakes me, and it waters.\n"
    )
    found = gather(HEADACHES, [reply], tmp_path / "chat", 2)
    assert found.rejected == {
        "names its label": 1, "names another label": 1, "its condition is a label": 1, "near-duplicate": 1,
    }  # fmt: skip
    assert found.missing == {"migraine": 2, "tension headache": 2, "cluster headache": 1, NONE_OF_THESE: 20}
    assert [path.name for path in (tmp_path / "chat").iterdir()] == [STORE]  # no bank yet


def test_a_short_note_is_taken(tmp_path: Path) -> None:
    """The prompt asks for texts that tell little; a clinician's note has no running prose."""
    knees = Panel("knees", (Label("meniscal tear"), Label("gout")), register="clinician")
    reply = (
        "meniscal tear | 44-year-old, twisted, locked, swollen overnight.\n"
        "meniscal tear | Medial joint line tender, cannot squat.\n"
        "gout | 60-year-old, night pain, red hot knee, big toe last year.\n"
        "gout | Knee red, tense, exquisitely tender.\n"
    )
    found = gather(knees, [reply], tmp_path / "chat", 2)
    assert not found.rejected
    assert list(found.missing) == [NONE_OF_THESE]


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("mine")
    with pytest.raises(BadInput, match="is not a folder of replies"):
        gather(HEADACHES, ["migraine | It throbs."], tmp_path, 5)
    with pytest.raises(BadInput, match="no text of a label"):
        gather(HEADACHES, ["Sorry."], tmp_path / "new", 5)
    assert not (tmp_path / "new").exists()
