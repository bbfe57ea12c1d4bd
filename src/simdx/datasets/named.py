"""Data sets by name, and any file of cases by its path.

oral-lesions           packaged: 300 vignettes and 65 out-of-class, unreviewed (see its datasheet)
symptom-to-diagnosis   GretelAI Symptom-to-Diagnosis (Apache-2.0) from the Hugging Face hub, pinned to a
                       revision, or a local copy: the hub's own `train.jsonl`/`test.jsonl` (columns
                       input_text, output_text) or rows of id, text, label. Its texts are never shipped
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from importlib.resources import as_file, files
from pathlib import Path

from simdx.datasets.dataset import Benchmark, Dataset
from simdx.datasets.files import Columns, read_cases
from simdx.errors import BadInput, RunFailed
from simdx.models.hub import hub, hub_answers
from simdx.rows import read_rows
from simdx.types import Case

ORAL_LABELS = ("oral squamous cell carcinoma", "oral mucocele", "atrophic glossitis")
ORAL_NOTICE = (
    "Written by a large language model from textbook knowledge; no clinician has reviewed these cases. "
    "Sex and difficulty are partly confounded in the carcinoma class."
)
# The six classes studied; the other sixteen are out of class.
SYMPTOM_LABELS = (
    "arthritis", "bronchial asthma", "cervical spondylosis", "dengue", "drug reaction", "jaundice",
)  # fmt: skip
# As they are spelt elsewhere, the paper included.
_ALIASES = {
    "asthma": "bronchial asthma",
    "cervical spondylitis": "cervical spondylosis",
    "dengue fever": "dengue",
}
SYMPTOM_NOTICE = (
    "GretelAI Symptom-to-Diagnosis, Apache-2.0; synthetic patient descriptions, labels as published."
)
REPOSITORY = "gretelai/symptom_to_diagnosis"
REVISION = "1718fcb269c001211a8a2c62e74ca96825bf1377"
SPLITS = ("train", "test")


def load_oral() -> Benchmark:
    """The vignettes with age, sex, ancestry, site and difficulty; the others with topic and distance."""
    with as_file(files("simdx.datasets") / "data" / "oral") as folder:
        name, notice = "oral-lesions", ORAL_NOTICE
        cases = read_cases(folder / "vignettes.jsonl", labels=ORAL_LABELS, name=name, notice=notice)
        ood = read_cases(folder / "ood.jsonl", labelled=False, name=f"{name}-ood", notice=notice)
    return Benchmark(cases, ood)


def load_symptoms(source: str | Path | None = None) -> Benchmark:
    """Cases of the six classes and of the rest, from a local file or folder, or else from the hub.

    Both splits together hold 288 cases of the six classes. A local file is read whatever its name; of a
    folder the hub's files are.
    """
    inside: list[Case] = []
    outside: list[Case] = []
    for path in _sources(source):
        for index, case in enumerate(read_cases(path, columns=_columns_of(path)).cases):
            identity = f"sd-{path.stem}-{index:04d}" if case.id.startswith("line-") else case.id
            diagnosis = " ".join(str(case.label).replace("_", " ").replace("-", " ").lower().split())
            diagnosis = _ALIASES.get(diagnosis, diagnosis)
            case = replace(case, id=identity, text=case.text.strip(), fields={"split": path.stem})
            if diagnosis in SYMPTOM_LABELS:
                inside.append(replace(case, label=diagnosis))
            else:
                outside.append(replace(case, label=None, fields={**case.fields, "topic": diagnosis}))
    if not inside:
        raise BadInput("none of the rows belongs to one of the six classes of Symptom-to-Diagnosis")
    name = "symptom-to-diagnosis"
    ood = Dataset(f"{name}-ood", tuple(outside), (), SYMPTOM_NOTICE) if outside else None
    return Benchmark(Dataset(name, tuple(inside), SYMPTOM_LABELS, SYMPTOM_NOTICE), ood)


def _columns_of(path: Path) -> Columns:
    """The hub's columns, or those of a copy; a file of other conditions has their names as `topic`."""
    _, first = next(read_rows(path), (0, {}))
    label = next((name for name in ("output_text", "label", "topic") if name in first), "label")
    return Columns("input_text" if "input_text" in first else "text", label)


def _sources(source: str | Path | None) -> list[Path]:
    if source is None:
        return [_from_hub(f"{split}.jsonl") for split in SPLITS]
    path = Path(source)
    if not path.is_dir():
        return [path]
    found = [path / f"{split}.jsonl" for split in SPLITS if (path / f"{split}.jsonl").is_file()]
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


NAMED = {"oral-lesions": load_oral, "symptom-to-diagnosis": load_symptoms}


def open_data(
    source: str | Path, *, columns: Columns | None = None, labels: Sequence[str] | None = None
) -> Benchmark:
    """A data set by name, else a file; a file that exists wins over a name."""
    name = str(source)
    if os.path.isfile(source):  # False, and no error, for a name no file can have
        return Benchmark(read_cases(source, columns=columns, labels=labels))
    if name in NAMED:
        return NAMED[name]()
    if os.path.isdir(source):
        raise BadInput(f"{name[:200]} is a folder: give one of the files in it")
    raise BadInput(f"there is no file at {name[:200]}, nor a data set of that name ({', '.join(NAMED)})")
