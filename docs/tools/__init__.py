"""What builds the documentation site beside MkDocs: hooks, generated pages and the checks of both."""
