"""One module per experiment that ships. Data that may not be shipped is named by $SIMDX_DATA."""
