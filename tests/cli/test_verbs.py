"""panel, models, bank and review verbs; and that the command line starts light."""

import csv
import json
import re
import subprocess
import sys
from importlib.abc import MetaPathFinder
from pathlib import Path

import pytest

from tests.cli.conftest import Cli


def ran(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_help_loads_neither_numpy_nor_torch() -> None:
    code = (
        "import sys\nfrom simdx.cli.main import run\n"
        "try: run(['--help'])\nexcept SystemExit: pass\n"
        "heavy = {'numpy', 'torch', 'scipy', 'matplotlib', 'wordllama', 'xllamacpp'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = ran(code)
    assert done.returncode == 0, done.stderr
    assert "classify" in done.stdout


@pytest.mark.parametrize("group", [(), ("bank",), ("panel",), ("scale",)])
def test_no_line_of_a_list_of_commands_is_cut_off(cli: Cli, group: tuple[str, ...]) -> None:
    shown = cli(*group, "--help").out
    assert "..." not in shown.partition("\nCommands:\n")[2]
    if group == ("bank",):
        assert "or from texts you already have (--from)." in " ".join(shown.split())


def test_panel_verbs(cli: Cli, tmp_path: Path) -> None:
    assert {p["name"] for p in cli("panel", "list", "--json").json["panels"]} >= {"oral-lesions"}
    assert cli("panel", "show", "oral-lesions", "--json").json["labels"][0]["must_not_miss"] is True
    assert "must not miss" in cli("panel", "show", "oral-lesions").out
    path = tmp_path / "mine.yaml"
    assert cli("panel", "new", path, "--label", "a: b", "--label", 'c = of "x", y=z').code == 0
    shown = cli("panel", "show", path, "--json").json["labels"]
    assert [(x["name"], x["description"]) for x in shown] == [("a: b", ""), ("c", 'of "x", y=z')]
    assert cli("panel", "check", path, "--json").json["ok"] is True
    before = path.read_text()
    path.write_text(before.replace('"c"', '"a: b"'))
    assert "more than once" in cli("panel", "check", path).complaint


def test_models_verbs(cli: Cli) -> None:
    rows = {m["name"]: m for m in cli("models", "list", "--json").json["models"]}
    assert rows["wordllama"]["here"] is True
    assert rows["smollm2"]["sha256"]
    assert cli("models", "verify", "wordllama").code == 0


def test_bank_verbs(cli: Cli, tmp_path: Path) -> None:
    source = tmp_path / "rows.jsonl"
    labels = ["oral squamous cell carcinoma", "oral mucocele", "atrophic glossitis"]
    source.write_text(
        "".join(json.dumps({"label": x, "text": f"{x} {i}"}) + "\n" for x in labels for i in range(2))
    )
    out = tmp_path / "bank"
    made = cli("bank", "import", "--panel", "oral-lesions", "--from", source, "--out", out, "--json").json
    assert made["labels"] == dict.fromkeys(labels, 2)
    shown = cli("bank", "show", out, "--json").json
    assert {k: shown[k] for k in ("panel", "labels", "rejected", "hash", "background")} == made
    assert shown["holds"] is True
    assert cli("bank", "verify", out).code == 0
    again = cli("bank", "import", "--panel", "oral-lesions", "--from", source, "--out", out)
    assert "not empty" in again.complaint
    (out / "bank.jsonl").write_text((out / "bank.jsonl").read_text().replace("mucocele 1", "mucocele 7"))
    broken = cli("bank", "verify", out)
    assert broken.code == 1
    assert len(broken.err.strip().splitlines()) == 1
    damaged = cli("bank", "show", out, "--json")
    assert (damaged.json["holds"], damaged.json["labels"]) == (False, made["labels"])
    assert "stats" not in damaged.json
    assert "finds bank 'bank' damaged" in damaged.err
    assert len(cli("bank", "show", out).err.splitlines()) == 1
    assert "finds it damaged" in cli("bank", "show", out, "--map", tmp_path / "m.svg").complaint
    assert "is damaged" in cli("classify", "text", "--panel", "oral-lesions", "--bank", out).complaint


def test_a_bare_command_shows_its_help_in_lines(cli: Cli) -> None:
    for args in ((), ("panel",)):
        ran = cli(*args)
        assert ran.code == 2
        assert len(ran.err.splitlines()) > 5
        assert "Usage: simdx" in ran.err


def test_a_panel_that_is_not_about_illness(cli: Cli, tmp_path: Path) -> None:
    general, clinical = tmp_path / "general.yaml", tmp_path / "clinical.yaml"
    labels = ("--label", "delivery", "--label", "billing")
    assert cli("panel", "new", general, "--register", "general", *labels).code == 0
    assert cli("panel", "new", clinical, *labels).code == 0
    assert "register: general" not in cli("panel", "check", general).out
    assert "register: general" in cli("panel", "check", clinical).out
    assert "register" in cli("panel", "new", tmp_path / "x.yaml", "--register", "support", *labels).complaint


def test_a_misspelt_key_is_named_with_the_right_one(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text("labls: [a, b]\n", encoding="utf-8")
    for verb in ("check", "show"):
        assert "'labls' is not a key: did you mean 'labels'?" in cli("panel", verb, path).complaint
    path.write_text("labels:\n  - {name: a, alias: [c]}\n  - b\n", encoding="utf-8")
    assert "did you mean 'aliases'?" in cli("panel", "show", path).complaint


def test_a_review_is_made_imported_and_summarised(cli: Cli, tmp_path: Path) -> None:
    out = tmp_path / "review"
    made = cli("review", "make", "--data", "oral-lesions", "--out", out, "--sample", 4, "--json").json
    assert made["cases"] == 4
    form = out / "form-reviewer-1.csv"
    with form.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.reader(stream))
    for row in rows[2:]:
        row[2:4] = ["5", "3"]
    with form.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows(rows)
    done = cli("review", "import", out, "--from", form, "--role", "oral pathologist", "--json").json
    assert done["scored"] == 4
    found = cli("review", "summary", out, "--json").json
    assert (found["scales"]["correctness"]["mean"], len(found["revise"])) == (3, 4)
    assert found["reviewers"]["reviewer-1"]["role"] == "oral pathologist"
    again = ("review", "make", "--data", "oral-lesions", "--out", tmp_path / "two", "--revise", out)
    assert cli(*again, "--json").json["cases"] == 4
    assert "to revise: 4" in cli("review", "summary", out).out
    assert json.loads((out / "review.json").read_text("utf-8"))["format"] == 1


def test_classify_imports_what_it_uses() -> None:
    """Files of this package behind one answer. A verb imports what it uses, when it uses it."""
    code = (
        "import sys\nfrom simdx.cli.main import run\n"
        "case = 'A soft, bluish swelling of the lower lip.'\n"
        "try: run(['classify', case, '--panel', 'oral-lesions', '--json'])\n"
        "except SystemExit as end: assert not end.code\n"
        "own = [n for n, m in sys.modules.items() if n.split('.')[0] == 'simdx' and m.__file__]\n"
        "heavy = {'matplotlib', 'pandas', 'sklearn', 'torch', 'scipy.stats', 'rich'} & set(sys.modules)\n"
        "print(len(own), sorted(heavy), file=sys.stderr)"
    )
    done = ran(code)
    assert json.loads(done.stdout)["label"] == "oral mucocele", done.stderr
    files, heavy = done.stderr.split(maxsplit=1)
    assert int(files) <= 75  # with the library and the reading of denied findings
    assert heavy.strip() == "[]"


@pytest.mark.parametrize(
    ("said", "code", "line"),
    [("libarrow.so: failed to map segment from shared object", 1, "out of memory"),
     ("No module named 'pyarrow'", 2, r"simdx\[eval\]")],
)  # fmt: skip
def test_a_library_without_room_is_not_one_that_is_missing(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, code: int, line: str
) -> None:
    class Loader(MetaPathFinder):
        def find_spec(self, name: str, *_: object) -> None:
            if name.split(".")[0] == "pyarrow":
                raise ImportError(said)

    monkeypatch.setattr(sys, "meta_path", [Loader(), *sys.meta_path])
    for name in [n for n in sys.modules if n.split(".")[0] == "pyarrow"]:
        monkeypatch.delitem(sys.modules, name)
    (tmp_path / "cases.csv").write_text("text,label\nA soft bluish swelling of the lip,oral mucocele\n")
    data, out = tmp_path / "cases.csv", tmp_path / "out"
    done = cli("evaluate", "--panel", "oral-lesions", "--data", data, "--out", out)
    assert done.code == code
    assert re.search(line, done.err)
