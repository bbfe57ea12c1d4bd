"""The plan's banks and questions (paper/PLAN.md) on a machine with a GPU, in the files that the artefacts read.

    python -m paper.gpu --out grid --minutes 60          # goes on where it stopped; a bank or a file once done stays
    SIMDX_BANKS=grid/banks SIMDX_ASKING=grid/asking python -m paper run --out grid/records --embedder wordllama+mpnet
    SIMDX_BANKS=grid/banks-facets SIMDX_ASKING=grid/asking python -m paper run --out grid/records-facets …

Case reports as the plan's amendments have them, each bank by a process of its own so that all are written at once:

    python -m paper.gpu --out grid --panels case-reports --models qwen2.5-coder-1.5b --held --no-asking --most 5000 \
        --draws 0 --folders banks

Weights come by `simdx models pull MODEL`, or from the folder in $SIMDX_HOME where there is no network.
"""

import gzip
import json
import re
import sys
import time
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from paper import world
from paper.vectors import pieces_of, save_vectors
from simdx.bank.files import MANIFEST_FILE, read_bank, write_bank
from simdx.bank.plan import BankPlan, BuildSettings, voice_for
from simdx.bank.scrub import Duplicates, Scrubber, tidy
from simdx.disk import write_atomically
from simdx.errors import RunFailed
from simdx.simulators import get_simulator
from simdx.simulators.base import Request, Simulator
from simdx.types import Bank, Panel

MODELS = ("qwen2.5-coder-1.5b", "smollm2")
PANELS = ("case-reports", "symptom-to-diagnosis", "oral-lesions")  # label names limit the first one's yield
# Folder of the banks: temperature, facets. The paper's setting keeps near-duplicates, as the paper does.
SETTINGS = {"banks": (0.2, False), "banks-facets": (0.8, True)}
DRAWS, WANTED, MOST_ASKED = "0,1,2", 500, 20_000  # banks of a setting; usable texts and requests of a label
BATCH = 1024
PADDED = 1_000_000  # characters of the questions in one batch
NUCLEUS = 1024  # tokens among which top-p is sought
LEAST = 100  # texts of a label below which a panel counts as not reached
REDRAWN = 200  # times that a token is drawn again
MARKDOWN = ("qwen2.5-coder-1.5b",)  # writes in Markdown, which is removed where texts are held
TAIL = 100  # characters of a text in which a refused phrase is sought
COLD = 0.2  # temperature of all that is asked
SAMPLES, GUESSES = 10, 3

# --------------------------------------------------------------------------- banks


class Sampler:
    """Texts of one label in large batches: rows that have ended are dropped, so that the rest are not waited for.

    The nucleus is sought among the NUCLEUS likeliest tokens: to sort 150,000 for every row costs more than the model.
    """

    def __init__(self, simulator: Any, seed: int) -> None:
        self.never: Callable[[str, str], bool] | None = None  # (text as begun, next token): is that token refused?
        self._torch, self._tokenizer, self._model = simulator.model_parts
        self._rendered: Callable[[str], str] = simulator.rendered_prompt
        torch, size = self._torch, self._model.config.vocab_size
        words = self._tokenizer.batch_decode([[i] for i in range(min(size, len(self._tokenizer)))])
        ends = {*simulator._ends, self._tokenizer.pad_token_id}
        self._words = ["" if i in ends else words[i] if i < len(words) else "" for i in range(size)]
        self._last = torch.zeros(size, dtype=torch.bool, device=self._model.device)
        self._last[[i for i, word in enumerate(words) if i in ends or "\n\n" in word]] = True
        self._stops = torch.zeros_like(self._last)
        self._stops[list(ends)] = True
        self._ends = ends
        torch.manual_seed(seed)

    def texts(self, requests: Sequence[Request]) -> list[tuple[str, str]]:
        """(text, finish reason) of requests with equal settings, in their order."""
        torch, prompts = self._torch, [self._rendered(r.prompt) + r.opening for r in requests]
        rows = None
        with torch.inference_mode():
            try:
                rows = self._tokens(prompts, requests[0])
            except torch.OutOfMemoryError:
                if len(requests) == 1:
                    raise
        if rows is None:  # outside of `except`, which holds on to the memory
            torch.cuda.empty_cache()
            return self.texts(requests[: len(requests) // 2]) + self.texts(requests[len(requests) // 2 :])
        return [self._text(r, row) for r, row in zip(requests, rows, strict=True)]

    def _tokens(self, prompts: list[str], one: Request) -> list[list[int]]:
        """A prompt that several rows have in common is read once; where all are equally long no mask is needed."""
        torch, device, n = self._torch, self._model.device, len(prompts)
        distinct = list(dict.fromkeys(prompts))
        row = torch.tensor([distinct.index(p) for p in prompts], device=device)
        read = self._tokenizer(distinct, return_tensors="pt", padding=True, add_special_tokens=False).to(device)
        ids, mask = read["input_ids"], read["attention_mask"]
        places = (mask.cumsum(1) - 1).clamp(min=0)
        mask = None if bool(mask.all()) else mask
        out = self._model(input_ids=ids, attention_mask=mask, position_ids=places, use_cache=True, logits_to_keep=1)
        cache, logits, place = out.past_key_values, out.logits[row, -1], places[row, -1:] + 1
        mask = None if mask is None else mask[row]
        if len(distinct) < n:
            cache.batch_select_indices(row)
        last = self._last if one.stop else self._stops
        found = torch.full((n, one.max_tokens), self._tokenizer.pad_token_id, dtype=torch.long, device=device)
        rows, going = torch.arange(n, device=device), torch.ones(n, dtype=torch.bool, device=device)
        begun = [one.opening] * n
        for step in range(one.max_tokens):
            token = self._drawn(logits, one)
            if self.never is not None:
                token = self._allowed(token, logits, one, begun, rows.tolist())
            found[rows[going], step] = token[going]
            going = going & ~last[token]
            left = int(going.sum())
            if not left or step + 1 == one.max_tokens:
                break
            if left < 0.85 * len(rows):
                kept = going.nonzero()[:, 0]
                cache.batch_select_indices(kept)
                rows, token, place, going = rows[kept], token[kept], place[kept], going[kept]
                mask = None if mask is None else mask[kept]
            if mask is not None:
                mask = torch.cat([mask, mask.new_ones(len(mask), 1)], dim=1)
            out = self._model(input_ids=token[:, None], attention_mask=mask, position_ids=place, past_key_values=cache,
                              use_cache=True)  # fmt: skip
            logits, place = out.logits[:, -1], place + 1
        return found.tolist()

    def _drawn(self, logits: Any, one: Request) -> Any:
        torch, logits = self._torch, logits.float() / max(one.temperature, 1e-4)
        top = logits.topk(min(NUCLEUS, logits.shape[1]))
        p = (top.values - logits.logsumexp(1, keepdim=True)).exp()
        p = p * (p.cumsum(1) - p < one.top_p)
        return top.indices.gather(1, torch.multinomial(p, 1))[:, 0]

    def _allowed(self, token: Any, logits: Any, one: Request, begun: list[str], rows: list[int]) -> Any:
        """Tokens that make a refused text are drawn again without them; `begun` grows by what is kept."""
        drawn, wrong = token.tolist(), list(range(len(rows)))
        for _ in range(REDRAWN):
            wrong = [i for i in wrong if self.never and self.never(begun[rows[i]], self._words[drawn[i]])]
            if not wrong:
                break
            logits[wrong, [drawn[i] for i in wrong]] = -self._torch.inf
            for i, new in zip(wrong, self._drawn(logits[wrong], one).tolist(), strict=True):
                drawn[i] = new
        for i, row in enumerate(rows):
            begun[row] += self._words[drawn[i]]
        return self._torch.tensor(drawn, device=token.device)

    def _text(self, request: Request, tokens: list[int]) -> tuple[str, str]:
        length = next((i for i, token in enumerate(tokens) if token in self._ends), len(tokens))
        text = request.opening + self._tokenizer.decode(tokens[:length], skip_special_tokens=True)
        before, stop, _ = text.partition("\n\n") if request.stop else (text, "", "")
        return before, "stop" if stop or length < len(tokens) else "length"


_HEADING = re.compile(r"^[ \t]*#+[ \t]*|^[ \t]*(?:[-*•+]|\d+[.)])[ \t]+", re.M)
_BOLD = re.compile(r"\*{2,}|__+")


def unmarked(text: str) -> str:
    """Without the signs of headings, lists and bold print, on one line."""
    return re.sub(r"\s*[\r\n]\s*", " ", _HEADING.sub("", _BOLD.sub("", text)))


def other_script(token: str) -> bool:
    """Whether it holds a letter or a sign of a script that is not the Latin one, or a part of a character."""
    return any(
        c == "\ufffd"
        or unicodedata.east_asian_width(c) in "WF"
        or (c.isalpha() and c > "\u024f" and not unicodedata.name(c, "").startswith("LATIN"))
        for c in token
    )


def refusal(scrub: Scrubber, markdown: bool = False) -> Callable[[str, str], bool]:
    """Whether a token makes the end of a text what the scrubber drops it for.

    Or starts a new line; in `markdown` lines may begin, what counts is the text without its signs, and no token is of
    another script.
    """

    def wrong(text: str) -> bool:
        return any(map(str.isalpha, text)) and scrub.says(text) is not None

    def refused(before: str, token: str) -> bool:
        if other_script(token) if markdown else "\n" in token:
            return True
        end = before if len(before) <= 3 * TAIL else "…" + before[-3 * TAIL :]
        after = end + token
        if markdown:
            end, after = unmarked(end), unmarked(after)
        cut = max(len(end) - TAIL, 0)
        start = "…" if cut else ""
        # What the end is refused for without the token, a word cut in half perhaps, no other token mends.
        return wrong(start + after[cut:]) and not wrong(start + end[cut:])

    return refused


def write_texts(
    panel: Panel,
    simulator: Any,
    settings: BuildSettings,
    late: Callable[[], bool],
    batch: int,
    most: int,
    before: tuple[Bank, dict[str, int]] | None = None,
    held: bool = False,
) -> tuple[Bank, dict[str, int]]:
    """The first usable texts of every label; whatever names a label is dropped and counted, none is kept.

    `before`: a bank that the time cut short, with how many requests of each label it took. `held`: a token that makes
    a text refused is not drawn, so that fewer texts have to be dropped; what MARKDOWN names is held without its signs.
    """
    markdown = held and simulator.id.removeprefix("hf:").partition("@")[0] in MARKDOWN  # behind @ stands a hash
    plan, sampler = BankPlan(panel, simulator.id, settings), Sampler(simulator, settings.seed)
    scrub = {name: Scrubber.for_topic(panel, name) for name in panel.names}
    copies = {name: Duplicates() for name in panel.names}
    kept: dict[str, list[str]] = {name: [] for name in panel.names}
    asked, rejected = Counter[str](), Counter[str]()
    if before is not None:
        bank, asked_before = before
        asked.update(asked_before)
        rejected.update(bank.rejected)
        for text, label in zip(bank.texts, bank.label_index, strict=True):
            kept[panel.names[label]].append(text)
            copies[panel.names[label]].seen(text)
    least = {name: max(settings.per_label, len(kept[name])) for name in panel.names}
    while not late():
        short = [n for n in panel.names if len(kept[n]) < settings.per_label and asked[n] < most]
        if not short:
            break
        name = min(short, key=lambda n: asked[n])  # all alike: one that is seldom usable must not take all the time
        wanted = (settings.per_label - len(kept[name])) * (asked[name] + 50) / (len(kept[name]) + 20)
        turn = range(asked[name], asked[name] + max(min(batch, int(1.1 * wanted), most - asked[name]), 1))
        asked[name] = turn.stop
        if held:
            sampler.never = refusal(scrub[name], markdown)
        requests = [plan.planned(name, i).request for i in turn]
        if markdown:  # a text goes on after a blank line
            requests = [replace(request, stop=()) for request in requests]
        for words, ended in sampler.texts(requests):
            text = tidy(unmarked(words) if markdown else words, ended)
            reason = scrub[name].reason(text)
            if reason is None and settings.facets and copies[name].seen(text):
                reason = "near-duplicate"
            if reason is None:
                kept[name].append(text)
            else:
                rejected[f"{name}: {reason}"] += 1
        print(f"{panel.name}, {name}: {len(kept[name])} of {asked[name]}", file=sys.stderr, flush=True)
    texts = [(i, text) for i, name in enumerate(panel.names) for text in kept[name][: least[name]]]
    index = np.array([i for i, _ in texts], dtype=np.int64)
    bank = Bank(panel.name, panel.names, tuple(text for _, text in texts), index, rejected=dict(rejected))
    return bank, dict(asked)


def write_banks(
    out: Path, model: str, panels: Sequence[str], simulator: Any, late: Callable[[], bool], wanted: int, batch: int,
    most: int, draws: Sequence[int], held: bool = False, folders: Sequence[str] = tuple(SETTINGS),
) -> None:  # fmt: skip
    """Every draw of every panel and setting that is not there yet. A bank that the time cut short says so."""
    for draw in draws:
        for folder in folders:
            temperature, facets = SETTINGS[folder]
            for name in panels:
                panel = world.load_source(name).panel
                place = out / folder / (f"{name}-{model}" + (f"-s{draw}" if draw else ""))
                manifest = _manifest(place)
                if (manifest and not manifest["cut_by_time"]) or late():
                    continue
                before = (read_bank(place, panel), manifest["asked"]) if manifest else None
                settings = BuildSettings(per_label=wanted, temperature=temperature, facets=facets, seed=draw,
                                         voice=voice_for(model))  # fmt: skip
                began = time.monotonic()
                bank, asked = write_texts(panel, simulator, settings, late, batch, most, before, held)
                counts = {label: bank.counts.get(label, 0) for label in panel.names}
                said = f"{place}: {counts}, asked {asked}, {time.monotonic() - began:.0f} s, {dict(bank.rejected)}"
                print(said, file=sys.stderr, flush=True)
                if min(counts.values()) < 1:  # no bank; below LEAST it is one, and is reported as not reached
                    continue
                how = {"temperature": temperature, "facets": facets, "seed": draw, "held": held}
                write_bank(
                    place, bank, panel, {"simulator": simulator.id, **how, "asked": asked, "cut_by_time": late()}
                )


def _manifest(place: Path) -> dict[str, Any] | None:
    file = place / MANIFEST_FILE
    return json.loads(file.read_text("utf-8")) if file.is_file() else None


# --------------------------------------------------------------------------- questions, of the paper's structure

CHOOSE = ("Choose only the most likely diagnosis of the patient described below from these options:", "Patient:",
          "Diagnosis (the number of the option and NO OTHER TEXT):")  # fmt: skip
ENSEMBLE = (
    ("Choose the one diagnosis that is likeliest for the patient below. Give the number ONLY.", "Patient:", "Number:"),
    ("Take the best match from the list. Reply with a number and nothing else.", "Case:", "Reply:"),
    ("Which diagnosis is most probable here? Write its number, no further text.", "Case description:", "Choice:"),
    ("You are a clinical classifier. Return the index of the right diagnosis ONLY.", "Patient:", "Index:"),
    ("Assign the right label to this patient. Write one digit.", "Patient description:", "Label:"),
    ("Name the likeliest diagnosis by its number ONLY.", "Description:", "Diagnosis:"),
    ("Pick one diagnosis for this case. Return the number and nothing more.", "Case details:", "Number:"),
    ("Classify this case under one label; your answer must be its digit.", "Text:", "Answer:"),
)


def question(words: tuple[str, str, str], options: Sequence[str], text: str) -> str:
    listed = "\n".join(f"{i}. {option}" for i, option in enumerate(options, start=1))
    return f"{words[0]}\n{listed}\n{words[1]} {text.strip()}\n{words[2]}"


def elicitation(options: Sequence[str], text: str) -> str:
    guesses = min(GUESSES, len(options))
    listed = ", ".join(f"{i}. {option}" for i, option in enumerate(options, start=1))
    form = "\n".join(f"G{i}: number, P{i}: percent" for i in range(1, guesses + 1))
    return (
        f"Give your {guesses} best guesses and for each the probability that it is right (0% to 100%). Write ONLY "
        f"the number of each guess and its probability, no other words, in this form:\n{form}\n"
        f"Question: which diagnosis does the patient described below have?\nChoices: {listed}\n"
        f"Patient: {text.strip()}\nAnswer:"
    )


def questions(options: Sequence[str], text: str) -> dict[str, list[Request]]:
    def cold(prompt: str, tokens: int, seed: int, **more: Any) -> Request:
        return Request(prompt, temperature=COLD, top_p=1.0, max_tokens=tokens, seed=seed, **more)

    plain = question(CHOOSE, options, text)
    return {
        "letters": [Request(plain, temperature=0.0, max_tokens=1, logprobs=20)],
        "elicited-t0.2": [cold(elicitation(options, text), 48, 0, opening="G1:")],
        "ensemble-t0.2": [cold(question(words, options, text), 4, i) for i, words in enumerate(ENSEMBLE)],
        "fidelity-t0.2": [cold(plain, 4, i) for i in range(SAMPLES)],
    }


def ask(
    out: Path, model: str, panels: Sequence[str], simulator: Simulator, late: Callable[[], bool], data: Path | None
) -> None:
    """All cases of a panel, inside and outside it, in the paper's four ways: replies word for word."""
    sampler = Sampler(simulator, 0)
    for name in panels:
        cases = world.read_panel(name, None, None, data)
        every = [*cases.dataset.cases, *(cases.outside.cases if cases.outside else ())]
        for way in questions(cases.names, ""):
            place = out / "asking" / f"replies-{model}" / f"{way}-{name}.jsonl.gz"
            if place.is_file() or late():
                continue
            began = time.monotonic()
            asked = [(case.id, request) for case in every for request in questions(cases.names, case.text)[way]]
            lines = _letters(simulator, asked) if way == "letters" else _said(sampler, asked)
            place.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(place, gzip.compress("".join(lines).encode(), mtime=0))
            print(f"{place}: {len(asked)} asked, {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)


def _letters(simulator: Simulator, asked: Sequence[tuple[str, Request]]) -> Iterator[str]:
    answers = dict(simulator.complete(request for _, request in asked))
    for i, (case, _) in enumerate(asked):
        if answers[i].error:
            raise RunFailed(f"a question was not answered: {answers[i].error}")
        likeliest = answers[i].logprobs
        top = [[token, round(logprob, 5)] for token, logprob in likeliest[0].top] if likeliest else []
        yield _line(case, answers[i].text, {"top": top})


def _said(sampler: Sampler, asked: Sequence[tuple[str, Request]]) -> Iterator[str]:
    """Questions of like length together, as many as some PADDED characters hold; answers in the order asked."""
    order = sorted(range(len(asked)), key=lambda i: (len(asked[i][1].prompt), asked[i][1].prompt))
    texts: dict[int, str] = {}
    while order:
        size = max(1, PADDED // len(asked[order[-1]][1].prompt))
        order, together = order[:-size], order[-size:]
        said = sampler.texts([asked[i][1] for i in together])
        texts |= {i: text for i, (text, _) in zip(together, said, strict=True)}
    yield from (_line(case, texts[i], {}) for i, (case, _) in enumerate(asked))


def _line(case: str, text: str, more: dict[str, Any]) -> str:
    return json.dumps({"case": case, "options": "numbers", "text": text, **more}, ensure_ascii=False) + "\n"


# --------------------------------------------------------------------------- embedding


def embed(out: Path, panels: Sequence[str], data: Path | None) -> None:
    """What mpnet makes of every piece of every bank and case, half precision, for `paper.context` to look up."""
    pieces = set[str]()
    for name in panels:
        cases = world.read_panel(name, None, None, data)
        found = [*cases.dataset.texts, *(cases.outside.texts if cases.outside else ())]
        for folder in SETTINGS:
            for place in sorted((out / folder).glob(f"{name}-*/{MANIFEST_FILE}")):
                found += read_bank(place.parent, cases.source.panel).texts
        pieces |= pieces_of(found)
    save_vectors(out, sorted(pieces))


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    out: Annotated[Path, typer.Option(help="Folder for banks and replies. A run goes on there.")],
    minutes: Annotated[float, typer.Option(help="No new batch after this time.")] = 60.0,
    models: Annotated[str, typer.Option(help="Separated by commas; names of weights, run by transformers.")] = "",
    panels: Annotated[str, typer.Option(help="Separated by commas. A process for each fills a large GPU.")] = "",
    batch: Annotated[int, typer.Option(help="Requests at a time.")] = BATCH,
    per_label: Annotated[int, typer.Option(help="Usable texts of a label.")] = WANTED,
    most: Annotated[int, typer.Option(help="Requests of a label.")] = MOST_ASKED,
    data: Annotated[Path | None, typer.Option(help="Folder of the cases; else $SIMDX_DATA.")] = None,
    draws: Annotated[str, typer.Option(help="Seeds of the banks, separated by commas; empty: only ask.")] = DRAWS,
    held: Annotated[bool, typer.Option(help="Draw no token that names a label or leaves prose.")] = False,
    folders: Annotated[str, typer.Option(help="Settings, by the folders of their banks.")] = ",".join(SETTINGS),
    asking: Annotated[bool, typer.Option(help="Ask before banks are written.")] = True,
    vectors: Annotated[bool, typer.Option(help="Embed what is there, and write nothing new.")] = False,
) -> None:
    """Ask first, since it is quick; then the banks, one draw of everything before the next draw."""
    end, about = time.monotonic() + 60 * minutes, panels.split(",") if panels else PANELS
    seeds = [int(seed) for seed in draws.split(",") if seed]
    if vectors:
        return embed(out, about, data)
    for model in models.split(",") if models else MODELS:
        simulator = get_simulator(f"hf:{model}", batch=batch)

        def late() -> bool:
            return time.monotonic() > end

        if asking:
            ask(out, model, about, simulator, late, data)
        write_banks(out, model, about, simulator, late, per_label, batch, most, seeds, held, folders.split(","))
        simulator.close()


if __name__ == "__main__":
    app()
