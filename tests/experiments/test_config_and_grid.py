"""The experiment file at the border, and the cells it stands for."""

from pathlib import Path

import pytest

from simdx.errors import BadInput
from simdx.experiments.config import SCALES, catalogue, find, parse_config
from simdx.experiments.grid import expand

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
MINIMAL = {"name": "x", "panels": [{"panel": "oral-lesions", "data": "oral-lesions"}], "methods": ["auto"]}


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"methods": []}, "methods"),
        ({"panels": [{"panel": "oral-lesions"}]}, "panels.0.data"),
        ({"colour": "red"}, "colour"),
        ({"name": "a/b"}, "name"),
        ({"seeds": []}, "seeds"),
        ({"methods": [{"method": "auto", "populations": 0}]}, "methods.0.populations"),
        ({"panels": [{"panel": "p", "data": "d", "subset": 0}]}, "panels.0.subset"),
        ({"simulators": [{"name": "a", "reading": -1}]}, "simulators.0.reading"),
    ],
)
def test_what_is_wrong_is_named(change: dict[str, object], named: str) -> None:
    with pytest.raises(BadInput, match=named.replace(".", r"\.")):
        parse_config({**MINIMAL, **change}, "x.yaml")


def test_cells_that_differ_in_nothing_they_use_are_one() -> None:
    config = parse_config(
        {
            **MINIMAL,
            "simulators": ["a", "b"],
            "embedders": ["hashing", "wordllama"],
            "methods": ["auto", "logits"],
            "banks": [{}, {"name": "own", "path": "banks/{panel}-{simulator}"}],
            "seeds": [0, 1],
        },
        "x.yaml",
    )
    cells = expand(config)
    count = lambda method, bank: sum(  # noqa: E731
        c.method.method == method and c.bank.name == bank for c in cells
    )
    assert count("auto", "reference") == 2 * 2  # embedders × seeds; no simulator matters
    assert count("auto", "own") == 2 * 2 * 2
    assert count("logits", "reference") == 2 * 2  # simulators × seeds; no embedder, no bank
    assert count("logits", "own") == 0
    assert len({c.slug for c in cells}) == len(cells)


@pytest.mark.parametrize("scale", SCALES)
def test_every_shipped_experiment_has_a_title_and_a_grid(scale: str) -> None:
    found = catalogue()
    assert {"embedding-baselines", "asking-smollm2", "asking-qwen"} <= set(found)
    for name, experiment in found.items():
        assert experiment.title
        cells = expand(find(name, scale)[0])
        assert cells
        assert scale == "full" or all((cell.panel.subset or 99) <= 40 for cell in cells)


def test_the_paper_grid_is_one_file() -> None:
    config, base = find(str(EXAMPLES / "paper-grid.yaml"), "full")
    cells = expand(config)
    assert base == EXAMPLES
    # six models, three panels, three seeds: six methods on their banks and four that ask
    assert len(cells) == 6 * 3 * 3 * (6 + 4)
    assert all(cell.simulator is not None for cell in cells)
