"""Bad input of every verb: exit 2 and one line that says what is wrong, nothing on standard output."""

import json
import shlex
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from simdx.cli.main import VERBS
from tests.cli.conftest import Cli

LABELS = ("oral squamous cell carcinoma", "oral mucocele", "atrophic glossitis")
CASES = [{"text": f"a case of the {label}, visit {i}", "label": label} for label in LABELS for i in range(4)]

# P stands for --panel oral-lesions, C for --panel oral-lesions --data good.jsonl.
SAID = """
quickstart --yes --out new                              | name at least two labels
quickstart migraine --yes --no-serve --out new          | at least two labels
quickstart "migraine, tension headache" --out new       | is one: name each separately
quickstart migraine Migraine --out new                  | occurs more than once
quickstart a b --simulator nonesuch --out new           | nonesuch
quickstart a b --simulator nonesuch.gguf --out new      | nonesuch.gguf
quickstart a b --register french --yes --out new        | register
quickstart a b --out good.jsonl --yes                   | cannot be made
classify P                                              | give a text
classify "" P                                           | is empty
classify text                                           | say which panel
classify text --panel nope                              | unknown panel
classify text --panel nope.yaml                         | there is no file 'nope.yaml'
classify text --panel folder                            | has no panel.yaml
classify text --panel empty.yaml                        | start it with 'labels:'
classify text --panel broken.yaml                       | is not valid YAML at line
classify text --panel one.yaml                          | at least two labels
classify text --panel tickets.yaml                      | has no bank
classify text and more P                                | in quotes
classify text P --file good.jsonl                       | not both
classify P --file latin.txt                             | not UTF-8
classify P --file note.docx                             | not plain text
classify P --file big.txt                               | over 2 MB
classify text P --prior gingivitis=.5                   | gingivitis
classify text P --prior "oral mucocele"                 | LABEL=NUMBER
classify text P --prior "oral mucocele=.7" "atrophic glossitis=.7" | at most 1
classify text P --prior "oral mucocele=nan"             | finite number
classify text P --none-prior 2                          | between 0 and 1
classify text P --none-prior .1 --closed                | closed leaves none of these out
panel show library                                      | simdx library show NAME
panel calibrate tickets.yaml --ask empty.txt            | empty.txt has no texts
classify text P --unlabelled empty.txt                  | empty.txt has no texts
panel prevalence P --unlabelled few.txt                 | at least 30 texts
classify text P --method magic                          | magic
classify text P --engine steam                          | steam
classify text P --kernel furry                          | furry
classify text P --reading zzz                           | unknown reading 'zzz'
classify text P --populations 0                         | populations
classify text P --populations many                      | populations
classify text P --budget 0                              | --budget
classify text P --embedder hashing+                     | empty part
classify text P --embedder zzz                          | unknown embedder 'zzz'
classify text P --embedder own/er --allow-remote        | hub cannot be reached
classify text P --embedder own/er                       | hub would be asked for it: add --allow-remote
classify text P --embedder own/../er                    | neither a folder nor a hub name
classify text P --method likelihood --simulator hf:no/here | hub would be asked for it
classify text P --method logits --simulator zzz         | unknown model 'zzz'
classify text P --method systemone                      | needs a server
classify text P --method abi --network none             | no network at 'none'
classify text P --bank no/such/bank                     | no bank
classify text P --bank folder                           | not a finished bank
classify text P --bank foreign.jsonl                    | row 1: its label is not in panel
classify text P --policy none.yaml                      | cannot be read
classify text P --policy odd-policy.yaml                | confident
classify text P --real foreign.jsonl                    | 'flu' on line 1, 2, 3
classify text P --html no/such/x.html                   | does not exist
classify text P --html folder                           | --html names a folder
classify text P --no-such-option                        | no-such-option
classify text P --seed -1                               | --seed
classify --panel library                                | give a text
read                                                    | give a text
read ""                                                 | empty
read --file none.txt                                    | cannot be read
evaluate --data good.jsonl                              | say which panel
evaluate P                                              | --data
evaluate P --data none.jsonl                            | no file at none.jsonl
evaluate P --data folder                                | is a folder: give one of the files in it
evaluate P --data empty.jsonl                           | has no rows
evaluate P --data garbage.jsonl                         | line 1: not valid JSON
evaluate P --data latin.csv                             | not valid UTF-8
evaluate P --data foreign.jsonl                         | 'flu' on line 1, 2, 3
evaluate P --data unlabelled.csv                        | line 3: the label in 'label' is empty
evaluate C --text-column body                           | no column 'body', only 'text', 'label'
evaluate C --label-column dx                            | no column 'dx'
evaluate C --id-column zz                               | no column 'zz'
evaluate C --by age                                     | has no field 'age'
evaluate C --ood none.jsonl                             | no file
evaluate C --ood folder                                 | is a folder
evaluate C --calibrate foreign.jsonl                    | is not a label of the panel
evaluate C --resamples 5                                | equal to 100
evaluate C --resamples 100000000000                     | 1000000
evaluate C --coverage nan                               | --coverage is nan: give a number between 0 and 1
evaluate C --compare zz                                 | choose among
evaluate C --out good.jsonl                             | is a file
evaluate C --method magic                               | magic
evaluate C --seed -1                                    | --seed
compare none folder                                     | none
panel show zz                                           | zz
panel new one.yaml                                      | exists already
panel new no/such/folder/p                              | does not exist
panel new p --label only                                | at least two
panel describe oral-lesions                             | a panel file you can edit
panel check broken.yaml                                 | not valid YAML
panel status zz                                         | zz
panel calibrate tickets.yaml                            | bank
panel calibrate oral-lesions --data foreign.jsonl       | is not a label of the panel
panel calibrate oral-lesions --ask none.txt             | is packaged
panel calibrate tickets.yaml --ask none.txt             | cannot be read
panel calibrate tickets.yaml --ask good.jsonl --data good.jsonl | give only one of them
panel prevalence P --unlabelled none.jsonl              | no file at none.jsonl
panel prevalence P --unlabelled good.jsonl              | at least 30 texts
panel compile oral-lesions --out good.jsonl             | is a file: give a folder
library search ""                                       | the query is empty
library show zz                                         | has no condition 'zz'
models pull zz                                          | unknown model
models verify zz                                        | unknown model
bank ask --panel zz                                     | zz
bank ask P --out no/such/p.txt                          | does not exist
bank import                                             | say which panel
bank import tickets.yaml empty.jsonl                    | no text of a label was found
bank import tickets.yaml latin.csv                      | save the reply as plain text
bank import tickets.yaml none.txt                       | cannot be read
bank import tickets.yaml                                | give the reply
bank import oral-lesions good.jsonl                     | give --out
bank import P --from good.jsonl                         | --from needs --out
bank import P --from none.parquet --out b               | give a JSONL, CSV or Parquet file
bank import P --from none --out b                       | give a JSONL, CSV or Parquet file
bank show none                                          | not a finished bank
bank verify none                                        | no bank folder
bank export none --to x.jsonl                           | no bank folder
bank merge none P --out m                                | at least two banks
bank score P --cases none.jsonl                         | no file
bank score P --cases good.jsonl --seed -1               | --seed
bank build P --out b                                    | --per-label
bank build P --out b --per-label 0                      | per-label
bank build P --out b --per-label 3 --simulator nobody   | unknown model 'nobody'
bank build P --out b --per-label 3 --simulator openai:x | openai:
bank build P --out b --per-label 3 --temperature 7      | temperature
bank build P --out b --per-label 3 --simulator scripted --top-p 0   | top
bank build P --out b --per-label 3 --simulator scripted --voice loud | voice
bank build P --out b --per-label 100001 --simulator scripted | ask for at most 100,000
bank build P --out b --per-label 3 --simulator scripted --background 100001 | of the background are too many
bank build P --out b --per-label 3 --seed -1            | --seed
bank conditions P --per-label 3                         | --simulator
bank conditions P --out folder                          | names a folder
bank conditions P --out one.yaml                        | exists already
bank conditions P --out no/such/x.txt                   | does not exist
abi train --objective best --count 300                  | best
abi train --out good.jsonl                              | is a file: give a folder
abi report --data none.jsonl --network none             | no network at 'none'
bench answers --panel zz                                | unknown panel
bench answers --short 0                                 | --short
bench service --clients 0                               | --clients
review make --data none.jsonl --out r                   | no file
review import none --from x --role y                    | no review
review summary folder                                   | holds no review
policy tune P --out p.yaml --risk 2                     | --risk
policy tune P --out p.yaml --ood good.jsonl             | --ood needs --data
policy tune P --out no/such/p.yaml                      | folder
policy tune P --out folder                              | names a folder
policy tune C --out p.yaml --sets odd                   | --sets
policy show                                             | give a policy file or --panel
policy show none.yaml                                   | cannot be read
policy show odd-policy.yaml --bank folder               | --bank goes with --panel
serve --panel zz                                        | unknown panel 'zz'
serve --panel =                                         | is not NAME or NAME=BANK
serve --upstream-cases good.jsonl                       | are for an --upstream
serve --upstream http://192.0.2.1                       | --allow-remote
serve --cds-client x                                    | is ISSUER=KEYS
token new ""                                            | name
token new x --scope zz --token-file t.json              | scopes are
token revoke zz --token-file t.json                     | zz
audit export --key none.key                             | none.key
audit verify --from none.jsonl --key a.key              | a.key
mcp --panel zz                                          | unknown panel 'zz'
mcp --embedder zz                                       | unknown embedder 'zz'
scale classify none.parquet o P --in-process            | no Parquet
scale classify in.parquet o P --in-process --text-column note | no column
scale classify in.parquet o P --in-process --method m-smc --engine live | works from a bank
scale bank P --per-label 3 --out b --endpoint x         | not an endpoint
validate transfer --data none                           | none
validate transfer --packaged oral-lesions               | give PANEL=CASES.jsonl
"""
LINES = [tuple(part.strip() for part in line.rsplit(" | ", 1)) for line in SAID.strip().splitlines()]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("simdx.models.hub.hub_answers", lambda: False)
    Path("folder").mkdir()
    texts = {
        "empty.yaml": "", "broken.yaml": "labels: [a", "one.yaml": "labels: [a]\n",
        "tickets.yaml": "register: general\nlabels: [zzyzx one, zzyzx two]\n",
        "odd-policy.yaml": "thresholds: {confident: high}", "note.docx": "a case",
        "empty.jsonl": "", "empty.txt": "\n", "few.txt": "A soft lip.\n", "garbage.jsonl": "no json",
        "good.jsonl": "\n".join(map(json.dumps, CASES)),
        "foreign.jsonl": "\n".join(json.dumps({**row, "label": "flu"}) for row in CASES),
        "unlabelled.csv": "text,label\nA soft lip,oral mucocele\nA hard lip,\n",
    }  # fmt: skip
    for name, text in texts.items():
        Path(name).write_text(text, encoding="utf-8")
    for name in ("latin.csv", "latin.txt"):
        Path(name).write_bytes("text,label\nL\xe4sion,oral mucocele\n".encode("latin-1"))
    with Path("big.txt").open("wb") as file:
        file.truncate(2_000_001)
    parquet.write_table(pa.table({"id": ["1"], "text": ["A soft lip."]}), "in.parquet")


@pytest.mark.parametrize(("line", "said"), LINES)
def test_one_line_and_exit_2(cli: Cli, here: None, line: str, said: str) -> None:
    short = {"P": ("--panel", "oral-lesions"), "C": ("--panel", "oral-lesions", "--data", "good.jsonl")}
    ran = cli(*(word for part in shlex.split(line) for word in short.get(part, (part,))))
    assert said in ran.complaint
    assert ran.out == ""
    assert "a case of the" not in ran.err
    assert not {"new", "b", "m", "r", "o", "p.yaml"} & {path.name for path in Path().iterdir()}


def test_no_verb_is_left_out() -> None:
    assert {line.split()[0] for line, _ in LINES} == set(VERBS)
