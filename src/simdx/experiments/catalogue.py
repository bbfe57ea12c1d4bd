"""The experiments that ship: every YAML file in `shipped`, under its file's name."""

from __future__ import annotations

from pathlib import Path

from simdx.errors import BadInput
from simdx.experiments.config import ExperimentConfig, Scale, read_config

SCALES = ("smoke", "full")
SHIPPED = Path(__file__).parent / "shipped"
# The folder of the repository that runs the paper's tables and figures again: not installed.
PAPER = "paper"


def catalogue() -> dict[str, ExperimentConfig]:
    return {path.stem: read_config(path) for path in sorted(SHIPPED.glob("*.yaml"))}


def find(name_or_file: str, scale: Scale) -> tuple[ExperimentConfig, Path]:
    """A shipped experiment's config, or a YAML file's; and the folder its relative paths start from."""
    path = Path(name_or_file)
    if path.suffix in (".yaml", ".yml") or path.is_file():
        return read_config(path), path.resolve().parent
    if name_or_file == PAPER:
        raise BadInput(
            "the paper's tables and figures are run from a checkout of the repository: 'make paper-smoke "
            "OUT=DIR', or 'python -m paper run --out DIR' and 'python -m paper report DIR'"
        )
    known = catalogue()
    if name_or_file not in known:
        raise BadInput(f"unknown experiment '{name_or_file}': choose {', '.join(known)}, or give a YAML file")
    config = known[name_or_file]
    return (smoke(config) if scale == "smoke" else config), Path.cwd()


def smoke(config: ExperimentConfig) -> ExperimentConfig:
    """Enough to see that it works: one panel, one bank, a few cases (fewer where a model is asked)."""
    few = 4 if config.simulators else 40
    panel = config.panels[0].model_copy(update={"subset": few})
    methods = tuple(m.model_copy(update={"calibration": None}) for m in config.methods)
    parts = {"panels": (panel,), "banks": config.banks[:1], "methods": methods, "resamples": 100}
    return config.model_copy(update=parts)
