"""Named model weights: where they come from, and proof that they are what they claim to be."""

from simdx.models.registry import REGISTRY, Weights, describe, verify, verify_or_explain
