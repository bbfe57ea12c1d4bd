"""Run by `test_no_pickle.py` in a process of its own: an audit hook cannot be taken off again.

Does the main jobs through the command line, and prints what touched pickle: classes looked up while
unpickling (each names the code that asked), dumps, and files opened under a pickle's name.
"""

import io
import json
import pickle
import sys
import traceback
from contextlib import redirect_stdout
from pathlib import Path

import jinja2.bccache  # noqa: F401  pickles two numbers as it is imported, for files of a cache we do not use

found: list[str] = []
QUICK = ("--count", "512", "--epochs", "1")
SUFFIXES = (".pkl", ".pickle", ".joblib", ".pt", ".pth", ".npy", ".shelve")


def watch(event: str, arguments: tuple[object, ...]) -> None:
    if event == "pickle.find_class":
        found.append(f"unpickled {arguments} in {_where()}")
    elif event == "open" and str(arguments[0]).lower().endswith(SUFFIXES):
        found.append(f"opened {Path(str(arguments[0])).name} in {_where()}")


def _where() -> str:
    return " < ".join(f"{f.filename}:{f.lineno}" for f in traceback.extract_stack()[-6:-2])


def main(folder: Path) -> None:
    from simdx.cli.main import run

    panel = folder / "fruit.yaml"
    panel.write_text("labels: [{name: apple}, {name: river}]\nregister: plain\nembedder: hashing\n")
    data = folder / "cases.csv"
    data.write_text("text,label\nred and sweet,apple\nwet and long,river\nround,apple\n")
    bank, network = str(folder / "bank"), str(folder / "network")
    jobs = [
        ["bank", "build", "--panel", panel, "--simulator", "scripted", "--per-label", "6", "--out", bank],
        ["classify", "a soft swelling of the lip", "--panel", "oral-lesions", "--html", folder / "a.html"],
        ["classify", "red", "--panel", panel, "--bank", bank, "--method", "d-smc", "--engine", "particles"],
        ["evaluate", "--panel", panel, "--bank", bank, "--data", data, "--out", folder / "results"],
        ["abi", "train", "--panel", panel, "--bank", bank, "--out", network, *QUICK],
        ["classify", "red", "--panel", panel, "--bank", bank, "--method", "abi", "--network", network],
        ["policy", "tune", "--panel", panel, "--bank", bank, "--out", folder / "policy.yaml"],
    ]
    codes = {}
    for job in jobs:
        printed = io.StringIO()
        try:
            with redirect_stdout(printed):
                run([str(part) for part in job])
        except SystemExit as ended:
            codes[" ".join(map(str, job))] = ended.code
    print(json.dumps({"found": found, "codes": codes}))


if __name__ == "__main__":
    sys.addaudithook(watch)
    for name in ("dump", "dumps"):
        original = getattr(pickle, name)

        def noted(
            *arguments: object, _name: str = name, _original: object = original, **options: object
        ) -> object:
            found.append(f"pickle.{_name} in {_where()}")
            return _original(*arguments, **options)

        setattr(pickle, name, noted)
    if "--plant" in sys.argv:
        pickle.loads(pickle.dumps(Path("planted")))
        print(json.dumps({"found": found, "codes": {}}))
    else:
        main(Path(sys.argv[1]))
