"""The experiment file, checked at the border; and those that ship: every YAML file in `shipped`."""

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator

from simdx.errors import BadInput
from simdx.yamlfile import read_mapping

Scale = Literal["smoke", "full"]  # how much of a shipped experiment to run
SCALES = ("smoke", "full")
SHIPPED = Path(__file__).parent / "shipped"
# The folder of the repository that runs the paper's tables and figures again: not installed.
PAPER = "paper"


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SimulatorPart(_Part):
    """A simulator by name; speeds and prices, where known, let a plan be costed without starting it."""

    name: str
    reading: float | None = Field(default=None, gt=0, description="prompt tokens per second")
    writing: float | None = Field(default=None, gt=0, description="generated tokens per second")
    prompt_price: float | None = Field(default=None, ge=0, description="per million prompt tokens")
    completion_price: float | None = Field(default=None, ge=0, description="per million generated tokens")


class PanelPart(_Part):
    """A panel with the cases to run it on. `subset` takes that many cases at random, the same for all."""

    panel: str
    data: str
    subset: int | None = Field(default=None, ge=1)


class BankPart(_Part):
    """Where simulations come from: the panel's own bank, or a path with {panel} and {simulator} in it.

    With `per_label`, a bank that is not there is built by the simulator first.
    """

    name: str = "reference"
    path: str | None = None
    per_label: int | None = Field(default=None, ge=1)

    @property
    def by_simulator(self) -> bool:
        return self.path is not None and "{simulator}" in self.path


class MethodPart(_Part):
    """A method and its settings; `calibration` fits a temperature on that share of the cases."""

    method: str
    engine: Literal["exact", "particles", "live"] = "exact"
    kernel: Literal["soft", "hard"] | None = None
    populations: int = Field(default=5, ge=1, le=20)
    particles: int | None = Field(default=None, ge=2)
    tolerance: float | None = Field(default=None, ge=0)
    stop_acceptance: float | None = Field(default=None, ge=0, lt=1)
    stay: float | None = Field(default=None, ge=0, le=1)
    bandwidth: float | None = Field(default=None, gt=0)
    budget: int | None = Field(default=None, ge=1)
    network: str | None = None
    calibration: float | None = Field(default=None, gt=0, lt=1)
    prior: dict[str, float] | None = None


class ExperimentConfig(_Part):
    """simulators × embedders × panels × banks × methods × seeds."""

    name: str = Field(pattern=r"^[\w.-]+$")
    title: str = ""
    simulators: tuple[SimulatorPart, ...] = ()
    embedders: tuple[str | None, ...] = (None,)
    panels: tuple[PanelPart, ...] = Field(min_length=1)
    banks: tuple[BankPart, ...] = (BankPart(),)
    methods: tuple[MethodPart, ...] = Field(min_length=1)
    seeds: tuple[int, ...] = (0,)
    subset_seed: int = 0
    resamples: int = Field(default=2000, ge=100)

    @field_validator("simulators", "methods", mode="before")
    @classmethod
    def _named(cls, value: Any, info: ValidationInfo) -> Any:
        """A plain string stands for an object with only its name."""
        if not isinstance(value, list | tuple):
            return value
        key = "method" if info.field_name == "methods" else "name"
        return tuple({key: item} if isinstance(item, str) else item for item in value)

    @field_validator("embedders", "banks", "panels", "seeds")
    @classmethod
    def _not_empty(cls, value: tuple[Any, ...]) -> tuple[Any, ...]:
        if not value:
            raise ValueError("give at least one, or leave it out")
        return value


def read_config(path: Path) -> ExperimentConfig:
    """A YAML file; relative paths in it are meant from the file's own folder."""
    data = read_mapping(path, "experiment", "it needs name, panels and methods")
    return parse_config(data, path.name)


def parse_config(data: Any, where: str) -> ExperimentConfig:
    if "allow_remote" in data:
        raise BadInput(
            f"experiment file {where}: allow_remote: a file cannot let text leave this machine: "
            "leave it out, and give --allow-remote to the command"
        )
    try:
        return ExperimentConfig.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "the file"
        raise BadInput(f"experiment file {where}: {place}: {first['msg']}") from None


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
