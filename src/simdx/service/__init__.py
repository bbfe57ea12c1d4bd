"""The HTTP service: an API, the record-system interfaces, an audit log and a page.

    request ─► gate (host, size, time, headers) ─► route ─► caller (token) ─► batcher ─► classifier
                                                                              │
                                                                              └─► audit log ─► answer

A leaf of the house: nothing outside this folder, `cli/serve.py` and `bench/service.py` imports it.
"""
