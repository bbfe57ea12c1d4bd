"""Data sets by name, and any file of cases by its path.

oral-lesions           packaged: 300 vignettes and 65 out-of-class, unreviewed (see its datasheet)
symptom-to-diagnosis   GretelAI Symptom-to-Diagnosis (Apache-2.0) from the Hugging Face hub, pinned to a
                       revision, or a local copy: the hub's own `train.jsonl`/`test.jsonl` (columns
                       input_text, output_text) or rows of id, text, label. Its texts are never shipped
"""

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from simdx.datasets.dataset import Benchmark, Columns, Dataset, read_cases
from simdx.errors import BadInput, RunFailed
from simdx.models.hub import hub, hub_answers
from simdx.rows import read_mapping, read_rows
from simdx.types import Case, content_hash

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


# --------------------------------------------------------------------------- MultiCaRe
#
# Case reports from the published release files (10.5281/zenodo.10079369): a row per article in
# `metadata.parquet` (`article_id`, `article_metadata` with title, keywords, mesh_terms, license, year, …) and
# in `cases.parquet` (`article_id`, `cases`: case_id, case_text, age, gender). Nested and flattened columns
# are both read, and flat CSV exports. MultiCaRe carries no diagnosis, so a class rule (YAML: patterns on
# title, keywords and MeSH terms) gives it; section headers and the rule's disease names are then stripped, so
# that no text spells out its label.


MIN_WORDS = 40
MOST_OUTSIDE = 500
NOTICE = (
    "MultiCaRe (Nievas Offidani and Delrieux, 2023), open-access case reports; "
    "licence per article in `license`. Labels come from a rule on titles, not from a reader."
)
REMOVED = "[…]"
_HEADERS = (
    r"case (presentation|report|description|summary|history)s?|case \d+|"
    r"(patient )?(presentation|information)|"
    r"(past |present |family |clinical |medical )*history|"
    r"introduction|background|abstract|discussion|conclusions?|"
    r"(clinical |physical |laboratory |imaging |general )*(findings|examinations?|investigations?)|"
    r"diagnos(is|es)|diagnostic assessment|differential diagnosis|treatment|therapeutic intervention|"
    r"outcome|follow[- ]?up( and outcomes?)?|timeline|informed consent"
)
# a header alone on its line, or at a line's start before a colon
_HEADER = re.compile(
    rf"^[ \t]*(\d+[.\d]*[ \t]*)?({_HEADERS})[ \t]*(:|\.?[ \t]*$)", re.IGNORECASE | re.MULTILINE
)


class _LabelRule(BaseModel):
    model_config = ConfigDict(extra="forbid")
    title: list[str] = []
    keywords: list[str] = []
    mesh: list[str] = []
    names: list[str] = []


class _RuleFile(BaseModel):
    model_config = ConfigDict(extra="forbid")
    labels: dict[str, _LabelRule] = Field(min_length=2)
    exclude_title: list[str] = []


@dataclass(frozen=True, slots=True)
class ClassRule:
    """Compiled patterns: which article has which label, and which names leave the text."""

    labels: Mapping[str, tuple[re.Pattern[str], ...]]  # for the title, the keywords, the MeSH terms
    exclude_title: re.Pattern[str]
    names: re.Pattern[str]

    def label_of(self, title: str, keywords: list[str], mesh: list[str]) -> str | None:
        """The label when exactly one matches, "" when several do or the title is excluded, else None."""
        if self.exclude_title.search(title):
            return ""
        hits = [
            label
            for label, patterns in self.labels.items()
            for pattern, values in zip(patterns, ([title], keywords, mesh), strict=True)
            if any(map(pattern.search, values))
        ]
        return hits[0] if len(set(hits)) == 1 else ("" if hits else None)


@dataclass(frozen=True, slots=True)
class Preparation:
    benchmark: Benchmark
    dropped: Mapping[str, int]


def read_rule(path: str | Path | None = None) -> ClassRule:
    """A class rule from YAML; without a path, the packaged one for the seven case-report labels."""
    packaged = Path(str(files("simdx.datasets"))) / "data" / "multicare" / "seven_classes.yaml"
    place = packaged if path is None else Path(path)
    if not place.is_file():
        raise BadInput(f"there is no class rule at {place}")

    def compiled(patterns: list[str]) -> re.Pattern[str]:
        joined = "|".join(f"(?:{p})" for p in patterns) or r"(?!)"  # which matches nothing
        return re.compile(joined, re.IGNORECASE)

    try:
        rule = _RuleFile.model_validate(read_mapping(place, "class rule", "it needs labels"))
        return ClassRule(
            {
                name: (compiled(r.title), compiled(r.keywords), compiled(r.mesh))
                for name, r in rule.labels.items()
            },
            compiled(rule.exclude_title),
            compiled([name for r in rule.labels.values() for name in r.names]),
        )
    except ValidationError as problem:
        raise BadInput(f"{place.name} is not a class rule ({str(problem).splitlines()[0]})") from None
    except re.error as problem:
        raise BadInput(f"{place.name} has a pattern that is not a regular expression ({problem})") from None


def load_multicare(cases: str | Path, metadata: str | Path, *, rule: ClassRule | None = None) -> Preparation:
    """Label, clean and select the release's cases.

    One case per article (the first with enough words after cleaning), so that no article counts twice. Of
    those outside the rule's labels at most `MOST_OUTSIDE` are taken, in the order of a hash of the article's
    id: reproducible, and blind to content.
    """
    rule = rule or read_rule()
    articles = dict(_articles(Path(metadata)))
    dropped: Counter[str] = Counter()
    taken: dict[str | None, list[Case]] = {label: [] for label in (*rule.labels, None)}
    seen: set[str] = set()
    for key, case in _release_cases(Path(cases)):
        article = articles.get(key)
        if article is None:
            dropped["no metadata"] += 1
            continue
        if key in seen:
            dropped["further case of an article"] += 1
            continue
        terms = (_terms(article.get(name)) for name in ("keywords", "mesh_terms"))
        label = rule.label_of(article["title"], *terms)
        if label == "":
            dropped["ambiguous or excluded title"] += 1
            continue
        text = clean(case["case_text"], rule.names)
        if len(text.split()) < MIN_WORDS:
            dropped["too short"] += 1
            continue
        seen.add(key)
        told = {"age": case.get("age"), "sex": case.get("gender")}
        fields = {k: v for k, v in told.items() if v is not None} | {"article": key}
        fields |= {"license": article.get("license") or "not stated", "year": article.get("year")}
        taken[label].append(Case(text, case["case_id"], label, fields))
    picked = tuple(case for label in rule.labels for case in taken[label])
    if not picked:
        raise BadInput("no case of the release matches the class rule")
    outside = taken[None]
    if len(outside) > MOST_OUTSIDE:
        outside = sorted(outside, key=lambda c: content_hash("multicare", str(c.fields["article"])))
    others = Dataset("multicare-ood", tuple(outside[:MOST_OUTSIDE]), (), NOTICE) if outside else None
    return Preparation(Benchmark(Dataset("multicare", picked, tuple(rule.labels), NOTICE), others), dropped)


def clean(text: str, names: re.Pattern[str]) -> str:
    """The text without section headers and without the names of the rule's diseases."""
    text = names.sub(REMOVED, _HEADER.sub("", text))
    return re.sub(r"[ \t]+", " ", re.sub(r"\s*\n\s*", "\n", text)).strip()


def _articles(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, row in read_rows(path):
        about = {**row, **row["article_metadata"]} if isinstance(row.get("article_metadata"), dict) else row
        identity = row.get("article_id") or about.get("pmcid")
        if not isinstance(identity, str) or not isinstance(about.get("title"), str):
            raise BadInput(f"{path.name}, line {number}: an article needs article_id (or pmcid) and title")
        yield identity, about


def _release_cases(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """(article, case) of every case."""
    for number, row in read_rows(path):
        nested = row.get("cases")
        for case in nested if isinstance(nested, list) else [row]:
            identity, text = case.get("case_id"), case.get("case_text")
            if not isinstance(identity, str) or not isinstance(text, str):
                raise BadInput(f"{path.name}, line {number}: a case needs case_id and case_text")
            yield row.get("article_id") or row.get("pmcid") or identity.split("_")[0], case


def _terms(value: Any) -> list[str]:
    if isinstance(value, str):
        return [part.strip() for part in value.strip("[]").replace("'", "").split(",") if part.strip()]
    return [str(v) for v in value] if isinstance(value, list) else []
