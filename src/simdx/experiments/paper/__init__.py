"""The paper's evidence as software: one module per table or figure, run together, reported together.

    context (cases, banks, fitted methods, cached answers) ──► artefact.run ──► Finding ──► record ──► report

An artefact is a module in `artefacts` whose docstring begins with its title and which has
`run(context) -> Finding`. A finding holds tables with the paper's figures beside ours, drawings, plain
sentences made from the numbers, and the numbers themselves with their intervals.
"""
