"""A run at a glance: one row per cell, with intervals, failures included."""

from __future__ import annotations

from typing import Any

from simdx.experiments.config import ExperimentConfig
from simdx.experiments.records import Record

SHOWN = ("accuracy", "brier", "ece", "nll", "error_auroc", "e_aurc")


def summary_row(record: Record) -> dict[str, Any]:
    """The record without its per-case rows, flattened to what a table shows."""
    cell = record["cell"]
    row: dict[str, Any] = {
        "panel": cell["panel"]["panel"],
        "method": method_name(cell["method"]),
        "bank": cell["bank"]["name"],
        "simulator": cell["simulator"],
        "embedder": cell["embedder"],
        "seed": cell["seed"],
        "status": record["status"],
    }
    if record["status"] == "failed":
        return {**row, "error": record["error"]}
    asking = record["asking"] or {}
    return {
        **row,
        "n": record["data"]["n"],
        "of": record["data"]["of"],
        **{name: record["metrics"][name] for name in SHOWN},
        "ci": {name: record["metrics"]["ci"].get(name) for name in SHOWN},
        "unanswered": asking.get("unanswered_cases"),
        "unreadable": None if not asking else asking["replies"] - asking["readable"],
        "replies": asking.get("replies"),
        "model_seconds": asking.get("model_seconds"),
        "seconds": record["cost"]["infer_seconds"],
        "calibrated": _calibrated(record["calibrated"]),
    }


def _calibrated(found: Record | None) -> dict[str, Any] | None:
    """The same figures after temperature scaling, on the cases it was not fitted on."""
    if found is None:
        return None
    metrics = found["metrics"]
    return {
        "temperature": found["temperature"],
        "n": metrics["n"],
        **{name: metrics[name] for name in SHOWN},
        "ci": {name: metrics["ci"].get(name) for name in SHOWN},
    }


def method_name(part: dict[str, Any]) -> str:
    """`m-smc`, or with what was set apart from the default: `centroid (kernel soft)`."""
    silent = ("method", "prior", "calibration")
    extra = [f"{key} {value}" for key, value in part.items() if key not in silent]
    extra += ["prior set"] if part.get("prior") else []
    return part["method"] + (f" ({', '.join(extra)})" if extra else "")


def markdown(config: ExperimentConfig, rows: list[dict[str, Any]]) -> str:
    return markdown_rows(config.title or config.name, rows)


def markdown_rows(title: str, rows: list[dict[str, Any]]) -> str:
    head = (
        "panel",
        "method",
        "bank",
        "simulator",
        "embedder",
        "n",
        *SHOWN,
        "unreadable replies",
        "unanswered",
    )
    lines = [f"# {title}", ""]
    lines += ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in rows:
        names = [
            row["panel"],
            row["method"],
            row["bank"],
            row["simulator"] or "",
            row["embedder"] or "default",
        ]
        if row["status"] == "failed":
            cells = [*names, f"failed: {row['error']}", *[""] * (len(head) - len(names) - 1)]
        else:
            size = str(row["n"]) if row["n"] == row["of"] else f"{row['n']} of {row['of']}"
            unread = "" if row["replies"] is None else f"{row['unreadable']} of {row['replies']}"
            unanswered = "" if row["unanswered"] is None else str(row["unanswered"])
            figures = [_figure(row[name], row["ci"][name]) for name in SHOWN]
            cells = [*names, size, *figures, unread, unanswered]
        lines.append(_line(cells))
        scaled = row.get("calibrated")
        if scaled:
            what = f"{row['method']}, scaled (T = {scaled['temperature']:.2f})"
            figures = [_figure(scaled[name], scaled["ci"][name]) for name in SHOWN]
            lines.append(_line([names[0], what, *names[2:], str(scaled["n"]), *figures, "", ""]))
    lines += [
        "",
        "Intervals are 95 %, bootstrap over cases. A case without a readable reply is scored at the prior. "
        "Scaled rows hold the cases their temperature was not fitted on.",
    ]
    return "\n".join(lines) + "\n"


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |"


def _figure(value: float | None, interval: list[float] | None) -> str:
    if value is None:
        return "undefined"
    return f"{value:.3f}" + (f" [{interval[0]:.3f}, {interval[1]:.3f}]" if interval else "")
