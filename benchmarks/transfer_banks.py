"""Banks that small models make of panels from label names and one line each, beside a strong model's.

    python benchmarks/transfer_banks.py export PANEL… --model ID --voice full --each 300 --out requests.json
    python benchmarks/transfer_banks.py judge PANEL --requests requests.json --answers answers.jsonl --out DIR
    python benchmarks/transfer_banks.py score PANEL --cases cases.jsonl [--bank DIR] --out record.json

export   the requests that `simdx bank build` would send, for a machine that has the model
judge    the texts that came back, through the filter of `simdx bank build`, into a bank folder
score    accuracy and calibration error of the recipe, M-SMC and D-SMC over a bank, or over the panel's own
"""

import argparse
import gzip
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from simdx.bank.builder import build_bank
from simdx.bank.files import packaged_bank, read_bank, read_manifest
from simdx.bank.plan import BACKGROUND, BankPlan, BuildSettings
from simdx.bank.report import BuildLimits
from simdx.panels import load_panel, load_source
from simdx.simulators.base import Capabilities, Completion, Request, failed

METHODS = ("auto", "m-smc", "d-smc")


class Replayed:
    """A simulator that gives answers made elsewhere, and fails where there is none."""

    remote, lockstep, concurrency = False, False, 1
    capabilities = Capabilities(logprobs=False, grammars=False, seeds=True, system_prompts=False)

    def __init__(self, id: str, requests: Path, answers: Path) -> None:
        self.id = id
        with gzip.open(answers, "rt") if answers.suffix == ".gz" else answers.open(encoding="utf-8") as file:
            rows = [json.loads(line) for line in file]
        texts = {row["key"] if "key" in row else (row["label"], row["index"]): row for row in rows}
        asked = json.loads(requests.read_text("utf-8"))
        found = ((row, texts.get(row["key"]) or texts.get((row["stratum"], row["index"]))) for row in asked)
        self._answers = {_address(row): text for row, text in found if text is not None}

    def complete(self, requests: Iterable[Request | None]) -> Iterator[tuple[int, Completion]]:
        for position, request in enumerate(requests):
            if request is None:  # every answer is there at once, so nothing more will be asked for
                return
            row = self._answers.get((request.prompt, request.opening, request.seed))
            if row is None:
                yield position, failed("not generated")
                continue
            reason, tokens = row.get("finish_reason") or row["reason"], row.get("completion_tokens", 0)
            yield position, Completion(row["text"], reason, 0, tokens, row.get("seconds", 0.0))

    def close(self) -> None: ...


def _address(row: dict[str, Any]) -> tuple[str, str, int]:
    return row["prompt"], row["opening"], row["seed"]


def export(args: argparse.Namespace) -> None:
    rows = []
    for path in args.panel:
        panel = load_panel(path)
        settings = BuildSettings(
            args.each, background=args.each, voice=args.voice, temperature=args.temperature
        )
        plan = BankPlan(panel, args.model, settings)
        for stratum in (*panel.names, BACKGROUND):
            for index in range(args.each):
                planned = plan.planned(stratum, index)
                r = planned.request
                rows.append(
                    {
                        "panel": panel.name, "voice": args.voice, "stratum": stratum, "index": index,
                        "key": planned.key, "prompt": r.prompt, "opening": r.opening, "seed": r.seed,
                        "temperature": r.temperature, "top_p": r.top_p, "max_tokens": r.max_tokens,
                    }
                )  # fmt: skip
    args.out.write_text(json.dumps(rows), encoding="utf-8")


def judge(args: argparse.Namespace) -> None:
    """As many texts a label as every label has usable ones, `--each` at most."""
    panel = load_panel(args.panel[0])
    simulator = Replayed(args.model, args.requests, args.answers)
    how: dict[str, Any] = {"voice": args.voice, "temperature": args.temperature}
    wanted = BuildSettings(args.each, background=args.background, **how)
    report = build_bank(panel, simulator, wanted, args.out, BuildLimits(least_yield=0.0))
    if not report.complete:
        fewest = min(report.usable[name] for name in panel.names)
        there = BuildSettings(
            fewest, background=min(args.background, report.usable.get("(background)", 0)), **how
        )
        report = build_bank(panel, simulator, there, args.out, BuildLimits(least_yield=0.0))
    print(report.describe())


def score(args: argparse.Namespace) -> None:
    import numpy as np

    from simdx.abc.prior import Prior
    from simdx.datasets import read_cases
    from simdx.embedders import get_embedder
    from simdx.fitting import fit_method
    from simdx.methods import Material, Settings
    from simdx.metrics.calibration import ece

    source = load_source(args.panel[0])
    panel = source.panel
    bank = packaged_bank(source) if args.bank is None else read_bank(args.bank, panel)
    cases = read_cases(args.cases, labels=panel.names)
    truth = np.array([panel.names.index(str(case.label)) for case in cases.cases])
    material = Material.prepare(panel, bank, get_embedder(panel.embedder))
    seen, prior = material.observe(cases.texts), Prior.uniform(len(panel.names))
    row: dict[str, Any] = {"panel": panel.name, "texts": len(bank.texts), "background": len(bank.background)}
    if args.bank is not None:
        manifest = read_manifest(args.bank)
        made = manifest["answers"]
        row |= {"simulator": manifest["simulator"], "answers": made, "rejected": manifest["rejected"]}
        row["usable_share"] = 1 - sum(manifest["rejected"].values()) / made
    for method in METHODS:
        answers = fit_method(material, Settings(method=method)).answer(seen, prior)
        right = answers.posterior_in_class.argmax(axis=1) == truth
        row[method] = {"accuracy": float(right.mean()), "ece": ece(answers.posterior, truth).value}
        if answers.out_of_class is not None:
            row[method]["none_of_these_inside"] = float(answers.out_of_class.mean())
    held = json.loads(args.out.read_text("utf-8")) if args.out.exists() else {"rows": []}
    held["rows"].append(row)
    args.out.write_text(json.dumps(held, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(row))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=("export", "judge", "score"))
    parser.add_argument("panel", nargs="+")
    parser.add_argument("--model", default="hf:qwen2.5-coder-1.5b")
    parser.add_argument("--voice", default="full")
    parser.add_argument("--temperature", type=float, default=0.8)
    parser.add_argument("--each", type=int, default=100)
    parser.add_argument("--background", type=int, default=60)
    for name in ("requests", "answers", "cases", "bank", "out"):
        parser.add_argument(f"--{name}", type=Path)
    args = parser.parse_args()
    {"export": export, "judge": judge, "score": score}[args.what](args)


if __name__ == "__main__":
    main()
