"""Cases of the panel benchmarks/data/films from public reports.

    python benchmarks/films.py REPORTS.csv CASES.jsonl

REPORTS.csv is the Indiana University chest film collection (Demner-Fushman et al. 2016, Open-i) as a table with
the columns uid, MeSH and findings. A report is a case where its index terms fall into exactly one of the eight
groups; of each group the first MOST. The texts are the FINDINGS sections as written; they are not committed.
"""

import json
import sys
from collections import Counter
from pathlib import Path

import pandas as pd

MOST = 60
GROUPS = {
    "Enlarged heart": ("Cardiomegaly",),
    "Pleural effusion": ("Pleural Effusion",),
    "Pneumonia": ("Pneumonia", "Infiltrate", "Consolidation", "Airspace Disease"),
    "Atelectasis": ("Pulmonary Atelectasis",),
    "Emphysema": ("Emphysema", "Pulmonary Emphysema", "Lung/hyperdistention", "Lung, Hyperlucent"),
    "Calcified granuloma": ("Calcified Granuloma", "Granulomatous Disease", "Granuloma"),
    "Lung nodule or mass": ("Nodule", "Mass"),
    "Degenerative or curved spine": (
        "Scoliosis",
        "Kyphosis",
        "Spondylosis",
        "Osteophyte",
        "Thoracic Vertebrae/degenerative",
    ),
}


def main(reports: Path, out: Path) -> None:
    table = pd.read_csv(reports).dropna(subset=["findings", "MeSH"])
    kept: Counter[str] = Counter()
    lines = []
    for row in table.sort_values("uid").itertuples():
        terms = [term.strip() for term in str(row.MeSH).split(";")]
        found = {
            label
            for label, starts in GROUPS.items()
            if any(term == start or term.startswith(f"{start}/") for term in terms for start in starts)
        }
        if len(found) != 1 or kept[label := found.pop()] == MOST:
            continue
        kept[label] += 1
        lines.append(json.dumps({"id": f"film-{row.uid}", "text": row.findings, "label": label}) + "\n")
    out.write_text("".join(lines), encoding="utf-8")
    print(f"{len(lines)} cases: {dict(kept)}", file=sys.stderr)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
