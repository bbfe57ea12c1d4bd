"""Simulators by name.

smollm2, qwen2.5-coder-1.5b, …     named weights, run by the embedded llama.cpp
path/to/model.gguf                 any GGUF file, likewise
openai:MODEL@http://host:port/v1   any OpenAI-compatible server
hf:NAME                            the same named weights, a folder or a hub name, run by transformers
scripted                           no model: deterministic texts
NAME or NAME:REST                  one that another package brings (`simdx.plugins`)
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simdx import plugins
from simdx.errors import BadInput
from simdx.models.registry import REGISTRY
from simdx.simulators.base import Capabilities, Completion, Request, Simulator, TokenLogprobs, ask, ask_all

if TYPE_CHECKING:
    from simdx.simulators.openai import Endpoints

DEFAULT = "smollm2"


def get_simulator(name: str = DEFAULT, *, allow_remote: bool = False, **options: Any) -> Simulator:
    """The simulator of that name; `options` go to its constructor. One elsewhere needs permission."""
    kind, _, rest = name.partition(":")
    if kind == "scripted":
        from simdx.simulators.scripted import ScriptedSimulator, options_from_name

        return ScriptedSimulator(**{**options_from_name(name), **options})
    if kind == "openai":
        from simdx.simulators.openai import OpenAISimulator

        return OpenAISimulator.from_name(name, allow_remote=allow_remote, **options)
    if kind in plugins.named("simulators"):
        return plugins.load("simulators", kind)(rest, **options)
    from simdx.models.fetch import locate

    identity = identity_of(name)  # refuses what is not a simulator before anything is fetched
    if kind == "hf":
        from simdx.simulators.transformers import TransformersSimulator

        weights = str(locate(rest)) if _generates(rest) else rest
        return TransformersSimulator(weights, id=identity, allow_remote=allow_remote, **options)
    from simdx.simulators.llamacpp import LlamaCppSimulator

    return LlamaCppSimulator(name if name.endswith(".gguf") else locate(name), name=identity, **options)


def open_endpoints(names: Sequence[str]) -> Endpoints:
    """`openai:MODEL@URL` names, all of one model; a scripted simulator stands in for a server in trials."""
    from simdx.simulators.openai import Endpoints

    models = sorted({_model_of(name) for name in names})
    if len(models) > 1:
        raise BadInput(
            f"the endpoints serve different models ({', '.join(models)}): a bank is drawn from one"
        )
    if len(set(names)) < len(names):
        raise BadInput("an --endpoint is named twice")
    # Labels alone are sent, to servers the caller names: naming them is the permission.
    return Endpoints("".join(models), [get_simulator(name, allow_remote=True) for name in names])


def _model_of(name: str) -> str:
    if name.startswith("openai:"):
        return name.removeprefix("openai:").partition("@")[0]
    if name.startswith("scripted"):
        return "scripted"
    raise BadInput(f"'{name[:200]}' is not an endpoint: write openai:MODEL@http://host:port/v1")


def identity_of(name: str) -> str:
    """The `id` the simulator of that name will have, without starting it."""
    kind, _, rest = name.partition(":")
    if kind == "scripted":
        return kind
    if kind == "openai":
        return name.rstrip("/")  # as the address is taken
    if kind == "hf":
        return f"hf:{identity_of(rest)}" if _generates(rest) else name
    if kind in plugins.named("simulators"):
        return name
    if name.endswith(".gguf"):
        from simdx.simulators.llamacpp import file_identity

        return file_identity(Path(name))
    if not _generates(name):
        if name in REGISTRY:
            raise BadInput(f"'{name}' is an {REGISTRY[name].kind}, not a generator: it cannot simulate")
        raise BadInput(
            f"unknown model '{name}': choose one of {', '.join(filter(_generates, REGISTRY))}, or give "
            "FILE.gguf, hf:MODEL or openai:MODEL@http://host:port/v1"
        )
    # The pinned hash, not the name, is the identity: a new pin must not answer for old requests.
    (sha,) = REGISTRY[name].files.values()
    return f"{name}@{sha[:16]}"


def _generates(name: str) -> bool:
    return name in REGISTRY and REGISTRY[name].kind == "generator"
