"""Coverage-guided fuzzing of every door that untrusted bytes come through: `make fuzz`.

`targets.py` says what each door may do with its bytes, `one.py` drives one target with atheris in a process
of its own, `run.py` drives them all for a bounded time and writes the record. `corpus/` holds the seeds.
"""
