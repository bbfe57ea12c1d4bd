"""From posterior to decision."""

from simdx.decide.rule import Thresholds, decide

__all__ = ["Thresholds", "decide"]
