"""Simulators by name.

smollm2, qwen2.5-coder-1.5b, …     named weights, run by the embedded llama.cpp
path/to/model.gguf                 any GGUF file, likewise
openai:MODEL@http://host:port/v1   any OpenAI-compatible server
hf:NAME                            the same named weights, a folder or a hub name, run by transformers
scripted                           no model: deterministic texts
NAME or NAME:REST                  one that another package brings (`simdx.plugins`)
"""

from pathlib import Path
from typing import Any

from simdx import plugins
from simdx.errors import BadInput
from simdx.simulators.base import Capabilities, Completion, Request, Simulator, TokenLogprobs, ask, ask_all

DEFAULT = "smollm2"


def get_simulator(name: str = DEFAULT, *, allow_remote: bool = False, **options: Any) -> Simulator:
    """The simulator of that name; `options` go to its constructor. One elsewhere needs permission."""
    if name == "scripted" or name.startswith("scripted:"):
        from simdx.simulators.scripted import ScriptedSimulator, options_from_name

        return ScriptedSimulator(**{**options_from_name(name), **options})
    if name.startswith("openai:"):
        from simdx.simulators.openai import OpenAISimulator

        return OpenAISimulator.from_name(name, allow_remote=allow_remote, **options)
    own, _, rest = name.partition(":")
    if own in plugins.named("simulators"):
        return plugins.load("simulators", own)(rest, **options)
    from simdx.models.fetch import locate

    if name.startswith("hf:"):
        from simdx.simulators.transformers import TransformersSimulator

        wanted = name.removeprefix("hf:")
        if not _known_generator(wanted):
            return TransformersSimulator(wanted, allow_remote=allow_remote, **options)
        return TransformersSimulator(str(locate(wanted)), id=identity_of(name), **options)
    from simdx.simulators.llamacpp import LlamaCppSimulator

    identity = identity_of(name)  # refuses what is not a simulator before anything is fetched
    return LlamaCppSimulator(name if name.endswith(".gguf") else locate(name), name=identity, **options)


def identity_of(name: str) -> str:
    """The `id` the simulator of that name will have, without starting it."""
    if name == "scripted" or name.startswith("scripted:"):
        return "scripted"
    if name.startswith("openai:"):
        return name.rstrip("/")  # as the address is taken
    if name.startswith("hf:"):
        bare = name.removeprefix("hf:")
        return f"hf:{identity_of(bare)}" if _known_generator(bare) else name
    if name.partition(":")[0] in plugins.named("simulators"):
        return name
    if name.endswith(".gguf"):
        from simdx.simulators.llamacpp import file_identity

        return file_identity(Path(name))
    from simdx.models.registry import REGISTRY

    if name not in REGISTRY:
        generators = ", ".join(key for key, entry in REGISTRY.items() if entry.kind == "generator")
        raise BadInput(
            f"unknown model '{name}': choose one of {generators}, or give FILE.gguf, hf:MODEL or "
            "openai:MODEL@http://host:port/v1"
        )
    weights = REGISTRY[name]
    if weights.kind != "generator":
        raise BadInput(f"'{name}' is an {weights.kind}, not a generator: it cannot simulate")
    # The pinned hash, not the name, is the identity: a new pin must not answer for old requests.
    sha = weights.files[weights.main_file] if weights.main_file else "unpinned"
    return f"{name}@{sha[:16]}"


def _known_generator(name: str) -> bool:
    from simdx.models.registry import REGISTRY

    return name in REGISTRY and REGISTRY[name].kind == "generator"
