"""The audit log: who was answered what, when, from which versions, in a chain that shows tampering.

It holds no case text, only a keyed hash. Its head is noted outside the database as it grows.
"""

from simdx.service.audit.chain import (
    KINDS,
    AuditKey,
    AuditRecord,
    AuditUnavailable,
    Entry,
    Verdict,
    patient_reference,
    read_checkpoints,
    verify,
)  # fmt: skip
from simdx.service.audit.store import CHECKPOINT_SECONDS, AuditStore
