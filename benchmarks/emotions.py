"""Cases of the panel benchmarks/data/emotions8 from GoEmotions, and the panel beside them.

    python -m benchmarks.emotions TSV FOLDER

TSV is a folder that holds `test.tsv`, `dev.tsv` and `labels.txt` of GoEmotions (Demszky et al. 2020,
Apache-2.0, comments of Reddit). A comment with one emotion is a case where that is a label of the panel, MOST
of each label, and else one of no label. The bank was written by a language model from the label names alone,
before any comment was seen. Comments are not committed.
"""

import json
import random
import shutil
import sys
from pathlib import Path

from simdx.panels import load_source

PANEL = Path(__file__).parent / "data" / "emotions8"
MOST, OUTSIDE = 45, 200


def main(source: Path, folder: Path) -> None:
    names = load_source(str(PANEL / "panel.yaml")).panel.names
    emotions = (source / "labels.txt").read_text(encoding="utf-8").split()
    lines = [
        line.split("\t")
        for part in ("test.tsv", "dev.tsv")
        for line in (source / part).read_text(encoding="utf-8").splitlines()
    ]
    random.Random(0).shuffle(lines)
    # Names are masked in the data; a reader would see one.
    told = [(text.replace("[NAME]", "Alex"), emotions[int(own)]) for text, own, _ in lines if own.isdigit()]
    cases = [
        {"text": text, "label": name}
        for name in names
        for text in [text for text, emotion in told if emotion == name][:MOST]
    ]
    others = [{"text": text} for text, emotion in told if emotion not in names][:OUTSIDE]
    shutil.copytree(PANEL, folder, dirs_exist_ok=True)
    for file, rows in {"cases.jsonl": cases, "ood.jsonl": others}.items():
        written = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        (folder / file).write_text(written, encoding="utf-8")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:3]))
