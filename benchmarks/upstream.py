"""What a panel adds to a server of typed decisions: calibration and none of these, before and after.

python benchmarks/upstream.py FOLDER --panel reports8 --panel clinc10 [--upstream [MODEL@]URL]

FOLDER holds panels as `simdx validate transfer` takes them. Without --upstream, the server is a second simdx
on this machine that answers with plain M-SMC. Before: its probabilities, and one minus the largest as a sign
of none of these. After: `simdx serve --upstream` with 0, 12 and 50 labelled cases, and a fifth as many of
none of these. Five draws of labelled cases; the other cases are measured.
"""

import argparse
import json
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from simdx.classifier import Classifier
from simdx.datasets import read_cases
from simdx.metrics.calibration import ece
from simdx.metrics.scores import ood_auroc
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


def measure(folder: Path, address: str) -> list[dict[str, object]]:
    classifier = Classifier(folder / "panel.yaml", method="upstream", simulator=address)
    names, fitted = classifier.panel.names, classifier.fitted
    assert isinstance(fitted, Upstream)
    cases = read_cases(folder / "cases.jsonl", labels=names)
    truth = np.array([names.index(str(case.label)) for case in cases.cases])
    inside = fitted.scores(classifier.observe(cases.texts), truth)
    outside = fitted.scores(classifier.observe(read_cases(folder / "ood.jsonl", labelled=False).texts))
    base, rows = fitted.calibration, []
    for n in LABELLED:
        found = []
        for draw in range(DRAWS if n else 1):
            rng = np.random.default_rng(draw)
            own, others = rng.permutation(len(truth)), rng.permutation(len(outside.likelihood))
            fitted.calibration = base
            if n:
                fitted.take(inside.at(own[:n]), outside.at(others[: n // 5]))
            kept, left = inside.at(own[n:]), outside.at(others[n // 5 :])
            posterior = kept.posterior(fitted.calibration)
            none, beyond = (part.outside(fitted.calibration) for part in (kept, left))
            said, said_outside = np.exp(kept.likelihood), np.exp(left.likelihood)
            found.append(
                {
                    "ece_before": ece(said, kept.label_index).value,
                    "ece_after": ece(posterior, kept.label_index).value,
                    "accuracy_before": float((said.argmax(axis=1) == kept.label_index).mean()),
                    "accuracy_after": float((posterior.argmax(axis=1) == kept.label_index).mean()),
                    "outside_auroc_before": ood_auroc(
                        1 - said.max(axis=1), 1 - said_outside.max(axis=1)
                    ).value,
                    "outside_auroc_after": ood_auroc(none, beyond).value,
                }
            )
        mean = {key: round(float(np.mean([row[key] for row in found])), 4) for key in found[0]}
        rows.append({"panel": classifier.panel.name, "labelled": n, "draws": len(found), **mean})
        print(json.dumps(rows[-1]), flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--panel", action="append", required=True)
    parser.add_argument("--upstream", help="default: a second simdx with plain M-SMC")
    parser.add_argument("--name", default="simdx, plain M-SMC")
    parser.add_argument("--out", type=Path, default=Path("results/upstream/record.json"))
    chosen = parser.parse_args()
    rows = []
    for panel in chosen.panel:
        if chosen.upstream:
            rows += measure(chosen.folder / panel, chosen.upstream)
        else:
            with second_simdx(chosen.folder / panel / "panel.yaml") as address:
                rows += measure(chosen.folder / panel, address)
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    before = json.loads(chosen.out.read_text(encoding="utf-8")) if chosen.out.is_file() else {}
    record = json.dumps({**before, chosen.name: rows}, indent=1)
    chosen.out.write_text(record + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
