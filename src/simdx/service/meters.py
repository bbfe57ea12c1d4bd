"""What Prometheus sees. Labels are routes, statuses, panels and decisions: never a text, never a caller."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from simdx import __version__

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Meters:
    """One set per application, so that two in a process do not share counts."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self) -> None:
        registry = self._registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self.requests = Counter(
            "simdx_requests", "Requests by route and status.", ["route", "status"], registry=registry
        )
        self.seconds = Histogram(
            "simdx_request_seconds", "Time from the first byte in to the last byte out.", ["route"],
            buckets=_SECONDS, registry=registry,
        )  # fmt: skip
        self.open = Gauge("simdx_open_requests", "Requests being answered.", registry=registry)
        self.sockets = Gauge("simdx_open_sockets", "Connections, busy or idle.", registry=registry)
        self.dropped = Counter(
            "simdx_dropped_sockets", "Connections ended by the service, by why.", ["why"], registry=registry
        )
        self.waiting = Gauge("simdx_waiting_texts", "Texts waiting for the engine.", registry=registry)
        self.batch = Histogram(
            "simdx_batch_texts", "Texts in one engine call.", buckets=_SIZES, registry=registry
        )
        self.engine = Histogram(
            "simdx_engine_seconds", "Time of one engine call.", buckets=_SECONDS, registry=registry
        )
        self.answers = Counter(
            "simdx_answers", "Answers by panel and decision.", ["panel", "action"], registry=registry
        )
        self.feedback = Counter(
            "simdx_feedback", "Final diagnoses reported, by whether they agree.", ["panel", "agrees"],
            registry=registry,
        )  # fmt: skip
        self.refused = Counter(
            "simdx_refused", "Requests refused, by kind of problem.", ["kind"], registry=registry
        )
        Info("simdx_build", "The version that is running.", registry=registry).info({"version": __version__})

    def exposition(self) -> bytes:
        return generate_latest(self._registry)
