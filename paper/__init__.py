"""The paper's tables and figures, run again with simdx and shown beside the paper's own figures.

    cases, banks, records of asking ──► measures ──► figures (a record) ──► spec ──► tables, drawings, claims

`python -m paper run` measures, `python -m paper report` renders; `make paper` does both. An artefact is a
file in `artefacts`: a spec of its rows, its metrics, the paper's figures beside them and the rules of its
claims. What a record holds is figures alone; everything a reader sees is rendered from them, so a record
that contradicts a claim turns the sentence. This folder is no part of the installed package."""
