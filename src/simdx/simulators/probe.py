"""Find out what a simulator can do by asking it, since servers differ and their names do not tell."""

from __future__ import annotations

from collections.abc import Callable

from simdx.simulators.base import Capabilities, Completion, Request

_TINY = 8


def probe(answer: Callable[[Request], Completion]) -> Capabilities:
    """A handful of requests of a few tokens each; whatever fails or is ignored counts as lacking.

    A server that does not answer the plainest one is asked nothing further: each would cost a time limit.
    """
    bare = answer(Request("Say hello.", max_tokens=1, seed=1))
    if not bare.ok:
        return Capabilities(logprobs=False, grammars=False, seeds=False, system_prompts=False)
    return Capabilities(
        logprobs=_gives_logprobs(answer),
        grammars=_obeys_grammars(answer),
        seeds=_repeats_seeds(answer),
        system_prompts=_reads_system_prompts(answer, bare),
    )


def _gives_logprobs(answer: Callable[[Request], Completion]) -> bool:
    reply = answer(Request("Say yes or no.", max_tokens=1, logprobs=3, temperature=0.0, seed=1))
    return reply.ok and bool(reply.logprobs) and len(reply.logprobs[0].top) > 1  # type: ignore[index]


def _obeys_grammars(answer: Callable[[Request], Completion]) -> bool:
    # A word no model would say by itself, so that obedience cannot be chance.
    reply = answer(Request("Say hello.", max_tokens=_TINY, grammar='root ::= "zqx"', seed=1))
    return reply.ok and reply.text.strip() == "zqx"


def _repeats_seeds(answer: Callable[[Request], Completion]) -> bool:
    def draw(seed: int) -> str:
        return answer(
            Request("Name any animal.", max_tokens=_TINY, temperature=1.5, top_p=1.0, seed=seed)
        ).text

    first = draw(11)
    return bool(first) and first == draw(11) and any(draw(seed) != first for seed in (12, 13, 14))


def _reads_system_prompts(answer: Callable[[Request], Completion], bare: Completion) -> bool:
    # Some templates put a default system prompt in: one that is clearly longer must still count.
    led = answer(Request("Say hello.", system="You are terse and polite. " * 12, max_tokens=1, seed=1))
    return led.ok and led.prompt_tokens > bare.prompt_tokens
