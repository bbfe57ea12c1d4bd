"""One file per table or figure of the paper, each with a spec ARTEFACT; its name is the file's."""
