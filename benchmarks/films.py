"""Cases of the panel benchmarks/data/films from public reports.

    python benchmarks/films.py REPORTS.csv CASES.jsonl

REPORTS.csv is the Indiana University chest film collection (Demner-Fushman et al. 2016, Open-i) as a table
with the columns uid, MeSH and findings. A report is a case where its index terms fall into exactly one of the
eight groups; of each group the first MOST. The texts are the FINDINGS sections as written; they are not
committed.
"""

import sys

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
    "Degenerative or curved spine": ("Scoliosis", "Kyphosis", "Spondylosis", "Osteophyte",
                                     "Thoracic Vertebrae/degenerative"),
}  # fmt: skip


def groups_of(terms: str) -> list[str]:
    """A group is found where a term is one of its own, or begins with one and a slash."""
    found = [f"{term.strip()}/" for term in terms.split(";")]
    return [group for group, own in GROUPS.items() if any(t.startswith(f"{o}/") for t in found for o in own)]


def main(reports: str, out: str) -> None:
    table = pd.read_csv(reports).dropna(subset=["findings", "MeSH"]).sort_values("uid")
    table["groups"] = table["MeSH"].astype(str).map(groups_of)
    table = table[table["groups"].map(len) == 1]
    table["label"] = table["groups"].str[0]
    kept = table.groupby("label").head(MOST)
    cases = pd.DataFrame(
        {"id": "film-" + kept["uid"].astype(str), "text": kept["findings"], "label": kept["label"]}
    )
    cases.to_json(out, orient="records", lines=True)
    print(f"{len(cases)} cases: {cases['label'].value_counts().to_dict()}", file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:3])
