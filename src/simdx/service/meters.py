"""What Prometheus sees. Labels are routes, statuses, panels and decisions: never a text, never a caller."""

from typing import Any

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
        here: dict[str, Any] = {"registry": registry}
        times, sizes = {**here, "buckets": _SECONDS}, {**here, "buckets": _SIZES}
        self.requests = Counter(
            "simdx_requests", "Requests by route and status.", ["route", "status"], **here
        )
        about = "Time from the first byte in to the last byte out."
        self.seconds = Histogram("simdx_request_seconds", about, ["route"], **times)
        self.waiting = Gauge("simdx_waiting_texts", "Texts waiting for the engine.", **here)
        self.batch = Histogram("simdx_batch_texts", "Texts in one engine call.", **sizes)
        self.engine = Histogram("simdx_engine_seconds", "Time of one engine call.", **times)
        self.answers = Counter("simdx_answers", "Answers by panel and decision.", ["panel", "action"], **here)
        about = "Final diagnoses reported, by whether they agree."
        self.feedback = Counter("simdx_feedback", about, ["panel", "agrees"], **here)
        self.refused = Counter("simdx_refused", "Requests refused, by kind of problem.", ["kind"], **here)
        Info("simdx_build", "The version that is running.", **here).info({"version": __version__})

    def exposition(self) -> bytes:
        return generate_latest(self._registry)
