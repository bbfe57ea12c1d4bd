"""What a panel adds to a server of typed decisions: calibration and none of these, before and after.

python benchmarks/upstream.py FOLDER --panel reports8 --panel clinc10 [--upstream [MODEL@]URL]

FOLDER holds panels as `simdx validate transfer` takes them. Without --upstream, the server is a second simdx
on this machine that answers with plain M-SMC. Before: its probabilities, and one minus the largest as a sign
of none of these. After: `simdx serve --upstream` with 0, 12 and 50 labelled cases, and a fifth as many of
none of these; means over five draws of them. Measured on the other cases: `labels` on cases of the labels,
among the labels; `all` on these and a quarter as many of none of these, over every outcome.
"""

import json
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from simdx.bench import records
from simdx.classifier import Classifier
from simdx.methods.calibration import HeldOutScores
from simdx.methods.calibration_record import Calibration
from simdx_contrib.systemone import Upstream

LABELLED, DRAWS = (0, 12, 50), 5


@contextmanager
def second_simdx(panel: Path) -> Iterator[str]:
    from simdx.service.app import create_app, server_for
    from simdx.service.config import Limits, ServiceConfig

    with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as listener:
        own = {"audit_url": "none", "token_file": Path(folder) / "tokens.json"}
        config = ServiceConfig(panels={str(panel): None}, methods=("m-smc",), **own)
        server = server_for(create_app(config), Limits())
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.05)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        server.should_exit = True
        thread.join(timeout=20)


def measure(folder: Path, address: str) -> Iterator[dict[str, Any]]:
    classifier = Classifier(folder / "panel.yaml", method="upstream", simulator=address)
    fitted = classifier.fitted
    assert isinstance(fitted, Upstream)
    cases = records.cases_in(folder, classifier.panel.names)
    asked = [classifier.observe(texts) for texts in (cases.texts, cases.outside)]
    scored = inside, outside = fitted.scores(asked[0], cases.truth), fitted.scores(asked[1])
    plain = [replace(s, likelihood=np.log(fitted.said(a.texts))) for s, a in zip(scored, asked, strict=True)]
    base, silent = fitted.calibration, Calibration(sharpness=1.0)  # as the server said it, no none of these
    for n in LABELLED:
        found = []
        for draw in range(DRAWS):
            rng = np.random.default_rng(draw)
            own, others = rng.permutation(len(cases.truth)), rng.permutation(len(outside.likelihood))
            fitted.calibration = base
            if n:
                fitted.take(inside.at(own[:n]), outside.at(others[: n // 5]))
            rows = own[n:], others[n // 5 :]
            row = {}
            for when, parts, under in (
                ("before", plain, silent),
                ("after", scored if n else plain, fitted.calibration),
            ):
                left = (part.at(i) for part, i in zip(parts, rows, strict=True))
                row |= {f"{name}_{when}": value for name, value in figures(*left, under).items()}
            found.append(row)
        mean = {key: round(float(np.mean([row[key] for row in found])), 4) for key in found[0]}
        yield {"panel": classifier.panel.name, "labelled": n, "draws": DRAWS, **mean}


def figures(inside: HeldOutScores, outside: HeldOutScores, under: Calibration) -> dict[str, Any]:
    among, truth = inside.among_labels(under), inside.label_index
    none = [part.outside(under) for part in (inside, outside)]
    if none[0] is None:
        none = [1 - part.among_labels(under).max(axis=1) for part in (inside, outside)]
    mixed = outside.at(np.arange(min(len(truth) // 4, len(outside.likelihood))))
    n_labels = among.shape[1]
    whole = np.concatenate([part.posterior(under) for part in (inside, mixed)])
    whole = np.pad(whole, ((0, 0), (0, n_labels + 1 - whole.shape[1])))
    every = np.append(truth, np.full(len(mixed.label_index), n_labels))
    return {
        "ece_labels": records.calibration_error(among, truth),
        "accuracy_labels": records.accuracy(among, truth),
        "ece_all": records.calibration_error(whole, every),
        "accuracy_all": records.accuracy(whole, every),
        "outside_auroc": records.outside_auroc(*none),
    }


def main() -> None:
    parser = records.parser(__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--panel", action="append", required=True)
    parser.add_argument("--upstream", help="default: a second simdx with plain M-SMC")
    parser.add_argument("--name", default="simdx, plain M-SMC")
    parser.add_argument("--out", type=Path, default=Path("results/upstream/record.json"))
    chosen = parser.parse_args()
    rows = []
    for folder in (chosen.folder / panel for panel in chosen.panel):
        server = nullcontext(chosen.upstream) if chosen.upstream else second_simdx(folder / "panel.yaml")
        with server as address:
            rows += measure(folder, address)
    before = json.loads(chosen.out.read_text(encoding="utf-8")) if chosen.out.is_file() else {}
    records.write_record(chosen.out, {**before, chosen.name: rows})
    print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
