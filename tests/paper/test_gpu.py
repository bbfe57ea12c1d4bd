"""The plan's banks and questions by a simulator without a model, read back as the artefacts read them."""

from pathlib import Path

import numpy as np
import pytest

from paper import gpu
from paper.asked import read_replies
from paper.world import read_panel, written_by_models, written_by_variants
from simdx.bank.files import read_bank
from simdx.errors import SimdxError
from simdx.panels import load_source
from simdx.simulators.base import Completion, Request, TokenLogprobs
from simdx.simulators.scripted import ScriptedSimulator
from simdx.simulators.transformers import TransformersSimulator

PANEL = "oral-lesions"


class Sampled:
    """A sampler in the place of one on a GPU: the scripted texts, or always the second option."""

    def __init__(self, simulator: ScriptedSimulator, _: int) -> None:
        self._simulator = simulator

    def texts(self, requests):  # type: ignore[no-untyped-def]
        if "2. " in requests[0].prompt:
            said = {True: "G1: 2, P1: 70%\nG2: 1, P2: 10%", False: "2. that one"}
            return [(said["guesses" in r.prompt], "stop") for r in requests]
        return [(answer.text, "stop") for _, answer in sorted(self._simulator.complete(requests))]


class Asked(ScriptedSimulator):
    def complete(self, requests):  # type: ignore[no-untyped-def]
        top = (("2", -0.1), ("1", -3.0), ("the", -5.0))
        for i, _ in enumerate(requests):
            yield i, Completion("2", logprobs=(TokenLogprobs("2", -0.1, top),))


@pytest.fixture
def _scripted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "Sampler", Sampled)


def _write(folder: Path, most: int = 400, late: bool = False) -> None:
    simulator = ScriptedSimulator(concurrency=30, leak=0.2)
    gpu.write_banks(folder, "small", [PANEL], simulator, lambda: late, 20, 30, most, (0, 1, 2))


@pytest.mark.usefixtures("_scripted")
def test_three_draws_of_both_settings_are_written_once_and_name_no_label(tmp_path: Path) -> None:
    _write(tmp_path)
    assert written_by_models(PANEL, tmp_path / "banks") == ("small",)
    assert {one.kind for one in written_by_variants(PANEL, tmp_path / "banks").values()} == {"draw"}
    panel = load_source(PANEL).panel
    banks = [read_bank(tmp_path / "banks" / f"{PANEL}-small{end}", panel) for end in ("", "-s1", "-s2")]
    assert all(set(bank.counts.values()) == {20} for bank in banks)
    assert sum(banks[0].rejected.values()) > 0
    assert not any("mucocele" in text.lower() for bank in banks for text in bank.texts)
    assert len({bank.hash for bank in banks}) == 3
    before = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*.json")}
    _write(tmp_path)
    assert before == {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*.json")}


@pytest.mark.usefixtures("_scripted")
def test_no_bank_is_written_after_the_time(tmp_path: Path) -> None:
    _write(tmp_path, late=True)
    assert not list(tmp_path.rglob("*.jsonl"))


@pytest.mark.usefixtures("_scripted")
def test_numbered_replies_are_read_back(tmp_path: Path) -> None:
    gpu.ask(tmp_path, "small", [PANEL], Asked(), lambda: False, None)
    cases = read_panel(PANEL, None, None, None)
    found = {one.method: one for one in read_replies(tmp_path / "asking", PANEL, cases)}
    assert {name: one.calls for name, one in found.items()} == {
        "logits": 1, "elicited": 1, "ensemble": 8, "fidelity": 10,
    }  # fmt: skip
    assert all(len(one.positions) == cases.n and one.answered == 1 for one in found.values())
    np.testing.assert_allclose(found["fidelity"].probabilities[0], [0, 1, 0])
    np.testing.assert_allclose(found["elicited"].probabilities[0], [0.1, 0.7, 0.2])
    letters = found["logits"].scores[0, 0]
    np.testing.assert_allclose(letters / letters.sum(), np.exp([-3, -0.1, -5]) / np.exp([-3, -0.1, -5]).sum())


def test_rows_are_dropped_and_prompts_shared_without_changing_a_text() -> None:
    """Cold, against the library's own generation, by a tiny network with random weights."""
    torch, simulator = pytest.importorskip("torch"), tiny_network()
    requests = [
        Request(prompt, temperature=0.0, max_tokens=12)
        for prompt in ("my joints", "my joints", "yellow eyes")
    ]
    theirs = [answer.text for _, answer in sorted(simulator.complete(requests))]
    with torch.no_grad():
        ours = gpu.Sampler(simulator, 0).texts(requests)
    assert [text for text, _ in ours] == theirs
    assert len(set(theirs)) == 2


def test_a_held_text_never_says_what_is_refused() -> None:
    torch, simulator = pytest.importorskip("torch"), tiny_network()
    requests = [Request("my joints", temperature=1.0, max_tokens=12)] * 40
    sampler = gpu.Sampler(simulator, 0)
    with torch.no_grad():
        free = [word for text, _ in sampler.texts(requests) for word in text.split()]
        often = max(set(free), key=free.count)
        sampler.never = lambda before, token: (before + token).endswith(often)
        held = [word for text, _ in sampler.texts(requests) for word in text.split()]
    assert often not in held
    assert len(set(held)) > 5


def test_a_token_is_refused_for_a_name_and_for_a_new_line() -> None:
    panel = load_source("case-reports").panel
    refused = gpu.refusal(gpu.Scrubber.for_topic(panel, "malaria"))
    begun = (("She had mal", "aria"), ("The final diagnosis", " was"), ("Fever", ".\n"))
    assert all(refused(before, token) for before, token in begun)
    assert not refused("She had a fever on every second", " day")
    assert not refused("malaria" + " and a fever that came back every second day" * 3, " again")
    assert not refused("malaria", " is named already")


def test_markdown_is_removed_and_line_breaks_become_spaces() -> None:
    text = "## Case\n\n**A man** came in.\n- fever\n* chills\n2. night __sweats__\n\nHe coughed; 3 * 2 pills"
    assert gpu.unmarked(text) == "Case A man came in. fever chills night sweats He coughed; 3 * 2 pills"


def test_in_markdown_a_token_is_refused_for_the_text_without_its_signs() -> None:
    panel = load_source("case-reports").panel
    refused = gpu.refusal(gpu.Scrubber.for_topic(panel, "breast cancer"), markdown=True)
    begun = (
        ("**Findings**\n\nBreast", "\n"), ("a lump of the", " 乳"), ("a lump", "，"), ("a lump", "\ufffd"),
        ("a lump", " опухоль"),
    )  # fmt: skip
    assert [refused(before, token) for before, token in begun] == [False, True, True, True, True]
    assert refused("The **final** diagnosis", " was")
    assert refused("A lump.\n- **breast** can", "cer")
    assert refused("## This", " report") is False
    assert refused("## This", " text")
    kept = ("\n\n", "## ", "**", "- ", " 5 µg", " café", " 38 °C")
    assert not any(refused("A woman of sixty felt a lump.", token) for token in kept)


@pytest.mark.usefixtures("_scripted")
def test_only_a_model_that_writes_markdown_is_read_without_its_signs(monkeypatch: pytest.MonkeyPatch) -> None:
    panel, stops = load_source(PANEL).panel, list[tuple[str, ...]]()

    class Marked(Sampled):
        def texts(self, requests):  # type: ignore[no-untyped-def]
            stops.extend(request.stop for request in requests)
            return [(f"## Case\n\n- {text}", ended) for text, ended in super().texts(requests)]

    monkeypatch.setattr(gpu, "Sampler", Marked)
    simulator, settings = ScriptedSimulator(concurrency=30), gpu.BuildSettings(per_label=5)
    for name, marked in (("hf:qwen2.5-coder-1.5b", True), ("hf:smollm2", False)):
        simulator.id = f"{name}@cc324af070c2ecbf"  # as `identity_of` has it where the weights are at hand
        stops.clear()
        bank, _ = gpu.write_texts(panel, simulator, settings, lambda: False, 30, 60, held=True)
        assert all(text.startswith("Case ") for text in bank.texts)
        assert (len(bank.texts) > 0, set(stops)) == (marked, {()} if marked else {("\n\n",)})


def test_the_tokens_of_a_real_tokenizer_keep_the_latin_script() -> None:
    transformers = pytest.importorskip("transformers")
    from simdx.models.fetch import locate

    try:
        place = locate("smollm2", download=False)
    except SimdxError:
        pytest.skip("no weights are at hand")
    file = next(place.glob("*.gguf")) if place.is_dir() else place
    tokenizer = transformers.AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    words = tokenizer.batch_decode([[i] for i in range(len(tokenizer))])
    refused = [word for word in words if gpu.other_script(word)]
    assert not any(word.isascii() for word in refused)
    assert len(refused) < 0.1 * len(words)


def tiny_network() -> TransformersSimulator:
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    from tokenizers import Tokenizer, models, pre_tokenizers

    known = ["<pad>", "<end>", "my", "joints", "yellow", "eyes", *map(str, range(200))]
    words = {word: i for i, word in enumerate(known)}
    inner = Tokenizer(models.WordLevel(words, unk_token="<end>"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="<pad>", eos_token="<end>", padding_side="left"
    )
    tokenizer.model_input_names = ["input_ids", "attention_mask"]
    torch.manual_seed(0)
    small = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
    small |= {"num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": len(words)}
    config = transformers.LlamaConfig(**small, eos_token_id=1, bos_token_id=None, pad_token_id=0)
    network = transformers.LlamaForCausalLM(config).eval()
    for part in network.parameters():
        part.data *= 4
    found = TransformersSimulator.__new__(TransformersSimulator)
    found.id, found.concurrency = "tiny", 4
    found._torch, found._tokenizer, found._model = torch, tokenizer, network
    return found


def test_the_questions_hold_the_case_and_every_option() -> None:
    for way in gpu.questions(("one", "two"), "a text").values():
        for request in way:
            assert all(part in request.prompt for part in ("1. one", "2. two", "a text"))
