"""The paper's tables and figures, run again with simdx and shown beside the paper's own figures.

    cases, banks, records of asking ──► measures ──► figures (a record) ──► tables, drawings, claims

`python -m paper run` measures, `python -m paper report` renders; `make paper` does both. A record holds figures alone;
everything a reader sees is made from them, so a record that contradicts a claim turns its verdict. This folder is no
part of the installed package."""
