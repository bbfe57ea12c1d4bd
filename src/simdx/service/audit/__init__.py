"""The audit log: who was answered what, when, from which versions, in a chain that shows tampering.

It holds no case text, only a keyed hash. Its head is noted outside the database as it grows.
"""

from simdx.service.audit.chain import AuditKey, Verdict, verify
from simdx.service.audit.checkpoints import AuditUnavailable
from simdx.service.audit.record import AuditRecord, Entry
from simdx.service.audit.store import AuditStore
