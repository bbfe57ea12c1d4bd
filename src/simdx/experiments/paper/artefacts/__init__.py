"""One module per table or figure of the paper: a title in the docstring's first line, `run(context)`."""
