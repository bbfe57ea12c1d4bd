"""The HTTP service: an API, the record-system interfaces, an audit log and a page.

    request ─► gate (host, size, time, headers) ─► route ─► caller (token) ─► batcher ─► classifier
                                                                              │
                                                                              └─► audit log ─► answer

This file imports nothing of ours: the number of threads must be set before numpy is loaded.

A leaf of the house: nothing outside this folder, `cli/serve.py` and `bench/service.py` imports it.
"""

import os


def limit_threads() -> None:
    """One thread for each library: batches are small, and the engine has a thread of its own.

    A second one makes nothing faster, and on a busy machine the engine waits for it. The libraries read these
    variables when they are loaded: this has an effect only before numpy is imported.
    """
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"):
        os.environ.setdefault(name, "1")
