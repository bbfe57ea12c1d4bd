"""What the artefacts measure, by theme: a context in, figures out."""
