"""The packaged oral-lesion benchmark: 300 vignettes and 65 out-of-class, unreviewed (see its datasheet)."""

from importlib.resources import as_file, files

from simdx.datasets.dataset import Benchmark
from simdx.datasets.files import read_cases

LABELS = ("oral squamous cell carcinoma", "oral mucocele", "atrophic glossitis")
NOTICE = (
    "Written by a large language model from textbook knowledge; no clinician has reviewed these cases. "
    "Sex and difficulty are partly confounded in the carcinoma class."
)


def load_oral() -> Benchmark:
    """The vignettes with age, sex, ancestry, site and difficulty; the others with topic and distance."""
    with as_file(files("simdx.datasets") / "data" / "oral") as folder:
        cases = read_cases(folder / "vignettes.jsonl", labels=LABELS, name="oral-lesions", notice=NOTICE)
        ood = read_cases(folder / "ood.jsonl", labelled=False, name="oral-lesions-ood", notice=NOTICE)
    return Benchmark(cases, ood)
