"""What other packages add: entry points of the groups `simdx.methods`, `simdx.embedders`, `simdx.simulators`.

A package names its own in its pyproject.toml:

    [project.entry-points."simdx.methods"]
    mine = "my_package.mine:fit"          # fit(panel_data, settings) -> Fitted

    [project.entry-points."simdx.embedders"]
    mine = "my_package.mine:MyEmbedder"   # called without arguments

    [project.entry-points."simdx.simulators"]
    mine = "my_package.mine:open"         # called with the text behind `mine:` and the options

The core's own names always win, so that an installed package cannot change what they mean.
"""

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from simdx.errors import BadInput


@cache
def named(group: str) -> dict[str, EntryPoint]:
    """Name -> entry point of one group. Reading the metadata takes milliseconds; nothing is imported."""
    found = sorted(entry_points(group=f"simdx.{group}"), key=lambda point: point.value)
    return {point.name: point for point in found}


def load(group: str, name: str) -> Any:
    found = named(group)[name]
    try:
        return found.load()
    except (ImportError, AttributeError) as error:
        raise BadInput(f"{group[:-1]} '{name}' of {found.value} cannot be loaded: {error}") from error
