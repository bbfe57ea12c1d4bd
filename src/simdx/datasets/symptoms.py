"""GretelAI Symptom-to-Diagnosis, reduced to the six classes studied; the other sixteen are out of class.

Source: `gretelai/symptom_to_diagnosis` on the Hugging Face hub (Apache-2.0), pinned to a revision, or a local
copy: the hub's own `train.jsonl`/`test.jsonl` (columns input_text, output_text) or rows of id, text, label.
The texts are never shipped with this package.
"""

from pathlib import Path
from typing import Any

from simdx.datasets.dataset import Benchmark, Dataset
from simdx.errors import BadInput, RunFailed
from simdx.models.hub import hub, hub_answers
from simdx.rows import read_rows
from simdx.types import Case

LABELS = ("arthritis", "bronchial asthma", "cervical spondylosis", "dengue", "drug reaction", "jaundice")
REPOSITORY = "gretelai/symptom_to_diagnosis"
REVISION = "1718fcb269c001211a8a2c62e74ca96825bf1377"
SPLITS = ("train", "test")
NOTICE = "GretelAI Symptom-to-Diagnosis, Apache-2.0; synthetic patient descriptions, labels as published."
# The six classes as they are spelt elsewhere, the paper included.
_ALIASES = {
    "asthma": "bronchial asthma",
    "cervical spondylitis": "cervical spondylosis",
    "dengue fever": "dengue",
}


def load_symptoms(source: str | Path | None = None) -> Benchmark:
    """Cases of the six classes and of the rest, from a local file or folder, or else from the hub.

    Both splits together hold 288 cases of the six classes. A local file is read whatever its name; of a
    folder the hub's files are.
    """
    inside: list[Case] = []
    outside: list[Case] = []
    for path, split in _sources(source):
        for index, (number, row) in enumerate(read_rows(path)):
            where = f"{path.name}, line {number}"
            text = _string(row, ("input_text", "text"), where)
            diagnosis = normalise_label(_string(row, ("output_text", "label", "topic"), where))
            identity = str(row.get("id", f"sd-{split}-{index:04d}"))
            if diagnosis in LABELS:
                inside.append(Case(text, identity, diagnosis, {"split": split}))
            else:
                outside.append(Case(text, identity, None, {"split": split, "topic": diagnosis}))
    if not inside:
        raise BadInput("none of the rows belongs to one of the six classes of Symptom-to-Diagnosis")
    ood = Dataset("symptom-to-diagnosis-ood", tuple(outside), (), NOTICE) if outside else None
    return Benchmark(Dataset("symptom-to-diagnosis", tuple(inside), LABELS, NOTICE), ood)


def normalise_label(label: str) -> str:
    """Lower case, single spaces, known spellings brought to the panel's."""
    plain = " ".join(label.replace("_", " ").replace("-", " ").lower().split())
    return _ALIASES.get(plain, plain)


def _sources(source: str | Path | None) -> list[tuple[Path, str]]:
    if source is None:
        return [(_from_hub(f"{split}.jsonl"), split) for split in SPLITS]
    path = Path(source)
    if not path.is_dir():
        return [(path, path.stem)]
    found = [(path / f"{split}.jsonl", split) for split in SPLITS if (path / f"{split}.jsonl").is_file()]
    if not found:
        raise BadInput(f"{path} holds neither train.jsonl nor test.jsonl")
    return found


def _from_hub(file: str) -> Path:
    if not hub_answers():
        raise RunFailed(f"the Hugging Face hub cannot be reached; give a local copy of {REPOSITORY} instead")
    with hub(allowed=True):
        from huggingface_hub import hf_hub_download

        try:
            return Path(hf_hub_download(REPOSITORY, file, repo_type="dataset", revision=REVISION))
        except Exception as problem:  # the hub's errors have no common base that is stable across versions
            raise RunFailed(f"{REPOSITORY}/{file} could not be fetched ({type(problem).__name__})") from None


def _string(row: dict[str, Any], names: tuple[str, ...], where: str) -> str:
    name = next((name for name in names if name in row), None)
    if name is None:
        raise BadInput(f"{where}: none of the columns {', '.join(names)} is there")
    if not isinstance(row[name], str) or not row[name].strip():
        raise BadInput(f"{where}: '{name}' is empty or not a string")
    return str(row[name].strip())
