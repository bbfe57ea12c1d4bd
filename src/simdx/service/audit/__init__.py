"""The audit log: who was answered what, when, from which versions, in a chain that shows tampering.

Case text is not in it, only a keyed hash; kept texts, where the operator asks for them, are sealed and
expire, and their leaving does not break the chain. Its head is noted outside the database as it grows.
"""

from simdx.service.audit.record import AuditRecord, Entry
from simdx.service.audit.ring import AuditKey, KeyRing
from simdx.service.audit.store import AuditStore, open_store
from simdx.service.audit.verify import Verdict, verify
