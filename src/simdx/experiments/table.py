"""A run at a glance: one row per cell, with intervals, failures included."""

from collections.abc import Mapping, Sequence
from typing import Any

from simdx.runs import Record

SHOWN = ("accuracy", "brier", "ece", "nll", "error_auroc", "e_aurc")
_HEAD = ("panel", "method", "bank", "simulator", "embedder", "n", *SHOWN, "unreadable replies", "unanswered")


def summary_row(record: Record) -> dict[str, Any]:
    """The record without its per-case rows, flattened to what a table shows."""
    cell = record["cell"]
    row: dict[str, Any] = {
        "panel": cell["panel"]["panel"],
        "method": method_name(cell["method"]),
        "bank": cell["bank"]["name"],
        **{name: cell[name] for name in ("simulator", "embedder", "seed")},
        "status": record.status,
    }
    if not record.done:
        return {**row, "error": record.error}
    asking, scaled = record["asking"] or {}, record["calibrated"]
    return {
        **row,
        "n": record["data"]["n"],
        "of": record["data"]["of"],
        **_figures(record["metrics"]),
        "unanswered": asking.get("unanswered_cases"),
        "unreadable": None if not asking else asking["replies"] - asking["readable"],
        "replies": asking.get("replies"),
        "model_seconds": asking.get("model_seconds"),
        "seconds": record.cost["infer_seconds"],
        # The same figures after temperature scaling, on the cases it was not fitted on.
        "calibrated": scaled
        and {
            "temperature": scaled["temperature"],
            "n": scaled["metrics"]["n"],
            **_figures(scaled["metrics"]),
        },
    }


def _figures(metrics: Mapping[str, Any]) -> dict[str, Any]:
    return {name: metrics[name] for name in SHOWN} | {"ci": {name: metrics["ci"].get(name) for name in SHOWN}}


def method_name(part: Mapping[str, Any]) -> str:
    """`m-smc`, or with what was set apart from the default: `centroid (kernel soft)`."""
    silent = ("method", "prior", "calibration")
    extra = [f"{key} {value}" for key, value in part.items() if key not in silent]
    extra += ["prior set"] if part.get("prior") else []
    return part["method"] + (f" ({', '.join(extra)})" if extra else "")


def markdown_rows(title: str, rows: Sequence[Mapping[str, Any]]) -> str:
    lines = [f"# {title}", "", _line(_HEAD), "|" + "---|" * len(_HEAD)]
    for row in rows:
        place = (row["bank"], row["simulator"] or "", row["embedder"] or "default")
        if row["status"] != "done":
            failed = (row["panel"], row["method"], *place, f"failed: {row['error']}")
            lines.append(_line([*failed, *[""] * (len(_HEAD) - len(failed))]))
            continue
        size = str(row["n"]) if row["n"] == row["of"] else f"{row['n']} of {row['of']}"
        unread = "" if row["replies"] is None else f"{row['unreadable']} of {row['replies']}"
        unanswered = "" if row["unanswered"] is None else str(row["unanswered"])
        lines.append(_line([row["panel"], row["method"], *place, size, *_cells(row), unread, unanswered]))
        if scaled := row.get("calibrated"):
            what = f"{row['method']}, scaled (T = {scaled['temperature']:.2f})"
            lines.append(_line([row["panel"], what, *place, str(scaled["n"]), *_cells(scaled), "", ""]))
    lines += [
        "",
        "Intervals are 95 %, bootstrap over cases. A case without a readable reply is scored at the prior. "
        "Scaled rows hold the cases their temperature was not fitted on.",
    ]
    return "\n".join(lines) + "\n"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |"


def _cells(row: Mapping[str, Any]) -> list[str]:
    around = {name: " [{:.3f}, {:.3f}]".format(*ends) for name, ends in row["ci"].items() if ends}
    return ["undefined" if row[n] is None else f"{row[n]:.3f}{around.get(n, '')}" for n in SHOWN]
