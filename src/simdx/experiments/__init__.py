"""Experiments: a grid of cells from one checked file, run, recorded and resumed.

    config (YAML) ──► grid of cells ──► run each ──► one record per cell ──► summary

A cell is one method on one panel's cases with one bank, embedder, simulator and seed. Its record holds what
was run, on which hashes, at what cost, the metrics with intervals, and a row per case (id and probabilities,
never a text). A cell that fails leaves a record that says so; a run that is killed goes on where it stopped.
"""
