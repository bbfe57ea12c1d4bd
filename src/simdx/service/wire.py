"""What leaves the service: strict JSON, in ASCII so that no label or case steers a terminal, and figures.

Prometheus sees routes, statuses, panels and decisions: never a text, never a caller.
"""

from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from pydantic_core import to_json
from starlette.responses import Response

from simdx import __version__

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


def dump(value: Any) -> bytes:
    """Compact JSON; control and other characters beyond ASCII are escaped, infinite numbers are null."""
    return to_json(value, inf_nan_mode="null", ensure_ascii=True)


class Json(Response):
    """Bytes are sent as they are: they were dumped, and recorded, before."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return content if isinstance(content, bytes) else dump(content)


class Meters:
    """One set per application, so that two in a process do not share counts."""

    def __init__(self) -> None:
        registry = self._registry = CollectorRegistry()
        ProcessCollector(registry=registry)

        def seconds(name: str, about: str, *labels: str) -> Histogram:
            return Histogram(name, about, labels, registry=registry, buckets=_SECONDS)

        def counter(name: str, about: str, *labels: str) -> Counter:
            return Counter(name, about, labels, registry=registry)

        self.requests = counter("simdx_requests", "Requests by route and status.", "route", "status")
        about = "Time from the first byte in to the last byte out."
        self.seconds = seconds("simdx_request_seconds", about, "route")
        self.waiting = Gauge("simdx_waiting_texts", "Texts waiting for the engine.", registry=registry)
        about = "Texts in one engine call."
        self.batch = Histogram("simdx_batch_texts", about, registry=registry, buckets=_SIZES)
        self.engine = seconds("simdx_engine_seconds", "Time of one engine call.")
        self.answers = counter("simdx_answers", "Answers by panel and decision.", "panel", "action")
        about = "Final diagnoses reported, by whether they agree."
        self.feedback = counter("simdx_feedback", about, "panel", "agrees")
        self.refused = counter("simdx_refused", "Requests refused, by kind of problem.", "kind")
        Info("simdx_build", "The version that is running.", registry=registry).info({"version": __version__})

    def exposition(self) -> Response:
        return Response(generate_latest(self._registry), headers={"content-type": CONTENT_TYPE_LATEST})
