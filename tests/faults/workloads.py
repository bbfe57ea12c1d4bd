"""Everything that writes, as small jobs a fault can be put into: what is there before, the job, what to see.

A workload may be run again in the same folder, as a user would repeat a command. `look` says what must hold
right after the fault, before anything is repeated; `state` is what the job is for, without times and
durations; no scratch file may be left once it has ended well.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from pathlib import Path
from typing import Any

from tests.faults.world import use_home, write_world

TIMES = ("seconds", "cost", "versions", "created", "revoked", "expires", "seal")


class Workload:
    """A command line in a world of its own; the others below change what they need to."""

    def __init__(self, *command: str, shows: tuple[str, ...] = ("out",)) -> None:
        self._command = command
        self._shows = shows

    def prepare(self, folder: Path) -> None:
        write_world(folder)

    def run(self, folder: Path) -> Any:
        use_home(folder)
        return simdx(*(part.replace("@", str(folder)) for part in self._command))

    def state_before(self, folder: Path) -> Any:
        return None

    def look(self, folder: Path, before: Any) -> list[str]:
        """What is visible now and should not be, one phrase each."""
        return []

    def state(self, folder: Path) -> Any:
        return {
            str(path.relative_to(folder)): _content(path, folder)
            for name in self._shows
            for path in sorted([folder / name, *(folder / name).rglob("*")])
            if path.is_file() and not path.name.startswith(".")
        }

    def is_scratch(self, path: Path) -> bool:
        if "home" in path.parts or not path.is_file():
            return False
        return path.suffix == ".part" or (path.name.startswith(".") and path.suffix != ".lock")


def simdx(*args: str) -> Any:
    import typer

    from simdx.cli.main import program

    return typer.main.get_command(program(args)).main(
        args=list(args), prog_name="simdx", standalone_mode=False
    )


def _content(path: Path, folder: Path) -> Any:
    """A file's content without durations and without its place; what is neither JSON nor text is hashed."""
    data = path.read_bytes().replace(str(folder).encode(), b"@")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return hashlib.sha256(data).hexdigest()
    try:
        if path.suffix == ".jsonl":
            rows = [_timeless(json.loads(line)) for line in text.splitlines()]
            # Answers lie in the order of their arrival, which a second run may change.
            return sorted(rows, key=lambda row: row["key"]) if path.name == "answers.jsonl" else rows
        return _timeless(json.loads(text))
    except ValueError:
        return text


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _timeless(v) for k, v in value.items() if k not in TIMES}
    if isinstance(value, list):
        return [_timeless(v) for v in value]
    return value


# --------------------------------------------------------------------------- banks


class Build(Workload):
    """`bank build`: what was answered stays, and a manifest never vouches for what is not so."""

    def __init__(self, per_label: int, earlier: int = 0) -> None:
        super().__init__(*self._args(per_label))
        self._earlier = earlier

    @staticmethod
    def _args(per_label: int) -> tuple[str, ...]:
        # One request at a time: the same calls in the same order in every run.
        simulator = "scripted:concurrency=1,refusal=.2"
        return (
            "bank", "build", "--panel", "@/panel.yaml", "--simulator", simulator, "--per-label",
            str(per_label), "--background", "1", "--out", "@/out", "--json",
        )  # fmt: skip

    def prepare(self, folder: Path) -> None:
        super().prepare(folder)
        if self._earlier:
            use_home(folder)
            simdx(*(part.replace("@", str(folder)) for part in self._args(self._earlier)))

    def state_before(self, folder: Path) -> Any:
        return sorted(_answers(folder / "out" / "answers.jsonl"))

    def look(self, folder: Path, before: Any) -> list[str]:
        from simdx.bank.files import problems_of

        out = folder / "out"
        found = []
        if (out / "manifest.json").exists():
            found += [f"the manifest is there, and {problem}" for problem in problems_of(out)]
        lost = set(before) - set(_answers(out / "answers.jsonl"))
        return [*found, *([f"{len(lost)} answers are lost"] if lost else [])]


def _answers(path: Path) -> list[str]:
    """Keys of the whole rows; the last line may be half a row."""
    lines = path.read_bytes().split(b"\n") if path.exists() else []
    return [json.loads(line)["key"] for line in lines[:-1]]


class Verified(Workload):
    """A job that makes a bank folder in one go."""

    def look(self, folder: Path, before: Any) -> list[str]:
        from simdx.bank.files import problems_of

        out = folder / "out"
        return list(problems_of(out)) if (out / "manifest.json").exists() else []


class Export(Workload):
    def prepare(self, folder: Path) -> None:
        super().prepare(folder)
        use_home(folder)
        simdx("bank", "import", "--panel", f"{folder}/panel.yaml", "--from", f"{folder}/rows.jsonl",
              "--out", f"{folder}/bank")  # fmt: skip

    def look(self, folder: Path, before: Any) -> list[str]:
        (file,) = self._shows
        from simdx.rows import read_rows

        if (folder / file).exists() and len(read_rows(folder / file)) != 15:
            return [f"{file} is there and not whole"]
        return []

    def state(self, folder: Path) -> Any:
        from simdx.rows import read_rows

        return read_rows(folder / self._shows[0])

    def run(self, folder: Path) -> Any:
        # The name must be free: a run that ended well is not repeated.
        if (folder / self._shows[0]).exists() and not self.look(folder, None):
            return 0
        return super().run(folder)


# --------------------------------------------------------------------------- networks


class Network(Workload):
    """Saving a network over an earlier one: at every moment the folder holds a whole one."""

    def prepare(self, folder: Path) -> None:
        super().prepare(folder)
        self._save(folder, 1)

    def run(self, folder: Path) -> Any:
        self._save(folder, 2)

    @staticmethod
    def _save(folder: Path, seed: int) -> None:
        from simdx.amortised.network import save
        from tests.faults.networks import toy_network

        save(toy_network(seed), folder / "out")

    def look(self, folder: Path, before: Any) -> list[str]:
        from simdx.amortised.network import load

        seed = load(folder / "out").card.settings["seed"]
        return [] if seed in (1, 2) else [f"a network of seed {seed}"]


# --------------------------------------------------------------------------- the service's stores


def open_log(folder: Path, create: bool = False) -> Any:
    """The audit log of a folder, with its key and its checkpoints beside it."""
    from simdx.service.audit import KeyRing, open_store

    ring = KeyRing.from_file(folder / "service" / "audit.key", create=create)
    return open_store(
        f"sqlite:///{folder}/service/audit.sqlite3", ring, keep_text=True,
        checkpoints=folder / "service" / "audit.checkpoints",
    )  # fmt: skip


class Audit(Workload):
    """The audit log: what `append` acknowledged is there, once, anchored if said so, and the chain holds."""

    def run(self, folder: Path) -> Any:
        from simdx.service.audit import Entry

        store = open_log(folder, create=True)
        try:
            store.resume()
            for i in range(3):
                both = [
                    Entry(f"{i}.{j}", "answer", "me", "toy", text=f"text {i}.{j}", answer={"label": "apple"})
                    for j in range(2)
                ]
                if all(store.find(entry.id) is None for entry in both):
                    store.append(both)
                    _acknowledge(folder, [entry.id for entry in both])
                store.checkpoint()
                _acknowledge(folder, [f"checkpoint={2 * i + 2}"])
        finally:
            store.close()

    def look(self, folder: Path, before: Any) -> list[str]:
        told = [i for i in _acknowledged(folder) if not i.startswith("checkpoint=")]
        if not (folder / "service" / "audit.key").exists():
            return ["acknowledged records have no key"] if told else []
        if not (folder / "service" / "audit.sqlite3").exists():
            return ["acknowledged records have no log"] if told else []
        store = open_log(folder)
        verdict = store.verify()
        found = [] if verdict.ok else [f"the chain does not hold: {verdict.problem}"]
        there = [record.id for record in store.records() if record.kind == "answer"]
        if len(there) % 2:
            found.append("half a batch is visible")
        if set(told) - set(there):
            found.append("acknowledged records are lost")
        anchored = [int(i.split("=")[1]) for i in _acknowledged(folder) if i.startswith("checkpoint=")]
        if anchored and _anchored(store) < max(anchored):
            found.append("an acknowledged checkpoint is lost")
        return found

    def state(self, folder: Path) -> Any:
        store = open_log(folder)
        rows = [[r.seq, r.id, store.text_of(r.id)] for r in store.records() if r.kind == "answer"]
        with sqlite3.connect(folder / "service" / "audit.sqlite3") as connection:
            check = connection.execute("PRAGMA integrity_check").fetchall()
        connection.close()
        verdict = store.verify()
        whole = [verdict.ok, verdict.unseen, _anchored(store) == verdict.records]
        return {"rows": rows, "whole": whole, "database": check[0][0]}


def _anchored(store: Any) -> int:
    last = store._file.last(store._ring)
    return last.records if last else 0


class Rotated(Audit):
    """`audit rotate-key`: at every moment the log verifies and its texts open."""

    def prepare(self, folder: Path) -> None:
        super().prepare(folder)
        Audit.run(self, folder)

    def run(self, folder: Path) -> Any:
        from simdx.service.audit import KeyRing

        service = f"{folder}/service"
        ring = KeyRing.from_file(Path(service) / "audit.key")
        if len(ring.keys) == 2 and ring.retired:  # it was done
            return 0
        return simdx("audit", "rotate-key", "--url", f"sqlite:///{service}/audit.sqlite3", "--key",
                     f"{service}/audit.key", "--checkpoints", f"{service}/audit.checkpoints")  # fmt: skip

    def look(self, folder: Path, before: Any) -> list[str]:
        store = open_log(folder)
        texts = [store.text_of(f"{i}.{j}") for i in range(3) for j in range(2)]
        closed = [] if all(texts) else ["a kept text does not open"]
        return [*super().look(folder, before), *closed]

    def state(self, folder: Path) -> Any:
        from simdx.service.audit import KeyRing

        ring = KeyRing.from_file(folder / "service" / "audit.key")
        with sqlite3.connect(folder / "service" / "audit.sqlite3") as connection:
            sealed = connection.execute("SELECT DISTINCT key_id FROM texts").fetchall()
            kinds = connection.execute("SELECT kind FROM records ORDER BY seq").fetchall()
        connection.close()
        keys = [len(ring.keys), ring.retired == {ring.keys[0].id}, sealed == [(ring.newest.id,)]]
        return {**super().state(folder), "keys": keys, "kinds": kinds}


def _acknowledge(folder: Path, ids: list[str]) -> None:
    # Beside the watched folder: this note is the test's own and meets no fault.
    with open(f"{folder.parent}/told-{folder.name}", "a") as file:
        file.write("".join(f"{i}\n" for i in ids))


def _acknowledged(folder: Path) -> list[str]:
    path = Path(f"{folder.parent}/told-{folder.name}")
    return path.read_text().split() if path.exists() else []


class Tokens(Workload):
    """Two tokens and a revocation: a token that was handed out works, a revoked one does not."""

    def run(self, folder: Path) -> Any:
        from simdx.service.auth import TokenFile

        file = TokenFile(folder / "service" / "tokens.json")
        for name in ("clinic", "ward"):
            if all(t.name != name for t in file.list()):
                file.new(name, ("classify",))
        if any(t.name == "ward" and t.revoked is None for t in file.list()):
            file.revoke("ward")

    def look(self, folder: Path, before: Any) -> list[str]:
        from simdx.service.auth import TokenFile

        TokenFile(folder / "service" / "tokens.json").list()
        return []

    def state(self, folder: Path) -> Any:
        from simdx.service.auth import TokenFile

        return [[t.name, t.revoked is None] for t in TokenFile(folder / "service" / "tokens.json").list()]


# --------------------------------------------------------------------------- experiments and evaluation

EXPERIMENT = """\
name: toy
panels: [{panel: with-bank.yaml, data: cases.jsonl}]
methods: [m-smc, centroid]
resamples: 100
"""


class Experiment(Workload):
    def prepare(self, folder: Path) -> None:
        super().prepare(folder)
        (folder / "experiment.yaml").write_text(EXPERIMENT)

    def look(self, folder: Path, before: Any) -> list[str]:
        found = []
        for path in [p for p in (folder / "out").rglob("*.json") if not p.name.startswith(".")]:
            try:
                json.loads(path.read_text())
            except ValueError:
                found.append(f"{path.name} is visible and not whole")
        return found


class Evaluate(Workload):
    def look(self, folder: Path, before: Any) -> list[str]:
        metrics = folder / "out" / "metrics.json"
        if metrics.exists():
            json.loads(metrics.read_text())
            missing = [n for n in ("cases.parquet", "report.html") if not (folder / "out" / n).exists()]
            return [f"metrics.json is there without {name}" for name in missing]
        return []

    def state(self, folder: Path) -> Any:
        import pyarrow.parquet as parquet

        rows = parquet.read_table(folder / "out" / "cases.parquet").to_pydict()
        return {"rows": rows, "metrics": _content(folder / "out" / "metrics.json", folder)}


class Replies(Workload):
    """A model's replies, kept line by line."""

    def run(self, folder: Path) -> Any:
        from simdx.baselines.replies import Reply, ReplyStore

        store = ReplyStore(folder / "out" / "replies.jsonl")
        for i in range(4):
            if store.get(f"key {i}") is None:
                store.keep(f"key {i}", Reply((0.25, 0.75), None, i, 2, 0.0))
                _acknowledge(folder, [f"{i}"])

    def look(self, folder: Path, before: Any) -> list[str]:
        from simdx.baselines.replies import ReplyStore

        store = ReplyStore(folder / "out" / "replies.jsonl")
        lost = [i for i in _acknowledged(folder) if store.get(f"key {i}") is None]
        return [f"replies {lost} are lost"] if lost else []

    def state(self, folder: Path) -> Any:
        from simdx.baselines.replies import ReplyStore

        store = ReplyStore(folder / "out" / "replies.jsonl")
        return [store.get(f"key {i}").prompt_tokens for i in range(4)]  # type: ignore[union-attr]


class Pull(Workload):
    """Fetching weights into the cache folder over damaged ones, from a mirror that is a file on this disk."""

    CONTENT = b"weights" * 4_000

    def prepare(self, folder: Path) -> None:
        super().prepare(folder)
        (folder / "models" / "toy").mkdir(parents=True)
        (folder / "models" / "toy" / "toy.bin").write_bytes(b"damaged")

    def run(self, folder: Path) -> Any:
        from unittest.mock import patch

        from simdx.models import fetch

        def copied(weights: Any, staged: Path, *_: Any) -> None:
            (staged / "toy.bin").write_bytes(self.CONTENT)

        with (
            patch.object(fetch, "describe", lambda name: self._weights()),
            patch.object(fetch, "folder_of", lambda weights: folder / "models" / "toy"),
            patch.object(fetch, "_from_hub", copied),
        ):
            fetch.pull("toy")

    def _weights(self) -> Any:
        from simdx.models.registry import Weights

        digest = hashlib.sha256(self.CONTENT).hexdigest()
        return Weights("toy", "generator", "a file", "none", 1, {"toy.bin": digest})

    def look(self, folder: Path, before: Any) -> list[str]:
        path = folder / "models" / "toy" / "toy.bin"
        whole = not path.exists() or path.read_bytes() in (b"damaged", self.CONTENT)
        return [] if whole else ["half of the weights are visible"]

    def state(self, folder: Path) -> Any:
        return sorted(p.name for p in (folder / "models").rglob("*") if p.suffix != ".lock")


# --------------------------------------------------------------------------- reviews, policies, caches


class Import(Workload):
    """`review import` beside scores of another reviewer."""

    def prepare(self, folder: Path) -> None:
        super().prepare(folder)
        use_home(folder)
        simdx("review", "make", "--data", f"{folder}/cases.jsonl", "--out", f"{folder}/review",
              "--reviewer", "anna", "--reviewer", "ben")  # fmt: skip
        for name in ("anna", "ben"):
            form = folder / "review" / f"form-{name}.csv"
            lines = form.read_text("utf-8").splitlines()
            rest = [line.rsplit(",", 4)[0] + ",4,5,," for line in lines[2:]]
            form.write_text("\n".join([*lines[:2], *rest]) + "\n", "utf-8")
        self._import(folder, "ben")

    def _import(self, folder: Path, name: str) -> Any:
        return simdx("review", "import", f"{folder}/review", "--from", f"{folder}/review/form-{name}.csv",
                     "--role", "dentist")  # fmt: skip

    def run(self, folder: Path) -> Any:
        use_home(folder)
        return self._import(folder, "anna")

    def look(self, folder: Path, before: Any) -> list[str]:
        from simdx.review import read_scores

        kept = {score.reviewer for score in read_scores(folder / "cases.jsonl.review.jsonl")}
        return [] if "ben" in kept else ["the other reviewer's scores are lost"]


class Classify(Workload):
    """An answer that fills the caches on its way: the same answer whatever happens to them."""

    def __init__(self) -> None:
        super().__init__("classify", "sweet red fruit from a tree", "--panel", "@/with-bank.yaml", "--html",
                         "@/answer.html", shows=("answer.html",))  # fmt: skip

    def is_scratch(self, path: Path) -> bool:
        return super().is_scratch(path) and path.parent.name != "embeddings"


class Exported(Audit):
    """`audit export` of a log that is there."""

    def prepare(self, folder: Path) -> None:
        super().prepare(folder)
        Audit.run(self, folder)

    def run(self, folder: Path) -> Any:
        service = f"{folder}/service"
        return simdx("audit", "export", "--out", f"{folder}/out.jsonl", "--url",
                     f"sqlite:///{service}/audit.sqlite3", "--key", f"{service}/audit.key")  # fmt: skip

    def look(self, folder: Path, before: Any) -> list[str]:
        out = folder / "out.jsonl"
        if out.exists() and len(out.read_text().splitlines()) != 6:
            return ["out.jsonl is there and not whole"]
        return super().look(folder, before)

    def state(self, folder: Path) -> Any:
        return [json.loads(line)["id"] for line in (folder / "out.jsonl").read_text().splitlines()]


def _merge() -> Verified:
    return Verified("bank", "merge", "@/rows.jsonl", "@/rows.jsonl", "--panel", "@/panel.yaml", "--out",
                    "@/out")  # fmt: skip


WORKLOADS: dict[str, Workload] = {
    "bank": Build(2),
    "bank-grown": Build(3, earlier=2),
    "bank-import": Verified("bank", "import", "--panel", "@/panel.yaml", "--from", "@/rows.jsonl",
                            "--background", "@/rows.jsonl", "--out", "@/out"),
    "bank-merge": _merge(),
    "bank-export": Export("bank", "export", "@/bank", "--to", "@/out.jsonl", shows=("out.jsonl",)),
    "bank-export-parquet": Export("bank", "export", "@/bank", "--to", "@/out.parquet",
                                  shows=("out.parquet",)),
    "network": Network(),
    "audit": Audit(),
    "audit-export": Exported(),
    "audit-rotate": Rotated(),
    "tokens": Tokens(),
    "experiment": Experiment("experiment", "run", "@/experiment.yaml", "--out", "@/out", "--workers", "1"),
    "evaluate": Evaluate("evaluate", "--panel", "@/with-bank.yaml", "--data", "@/cases.jsonl", "--out",
                         "@/out"),
    "replies": Replies(),
    "models": Pull(),
    "review-make": Workload("review", "make", "--data", "@/cases.jsonl", "--out", "@/out"),
    "review-import": Import(shows=("cases.jsonl.review.jsonl",)),
    "policy": Workload("policy", "tune", "--panel", "@/with-bank.yaml", "--out", "@/policy.yaml",
                       shows=("policy.yaml",)),
    "panel-new": Workload("panel", "new", "@/fresh.yaml", shows=("fresh.yaml",)),
    "classify": Classify(),
}  # fmt: skip
