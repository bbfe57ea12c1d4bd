"""Small plots as inline SVG, drawn from stored values. No script, no font, no request.

Colours come from CSS variables of the page, so the same drawing works in light, dark and print.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

from simdx.types import Float


def posterior_bars(posterior: Mapping[str, float], prior: Mapping[str, float], leading: str) -> str:
    """One bar a label, the prior as a tick on the same axis."""
    row, left, width = 30, 240, 330
    height = row * len(posterior) + 8
    out = [_open(left + width + 70, height, "Posterior probability of each label, prior as a tick")]
    for i, (label, p) in enumerate(sorted(posterior.items(), key=lambda item: -item[1])):
        y = 4 + i * row
        kind = "lead" if label == leading else "rest"
        out.append(f'<text x="{left - 10}" y="{y + 18}" class="name">{escape(_fit(label, 34))}</text>')
        out.append(f'<rect x="{left}" y="{y + 4}" width="{width}" height="18" class="track"/>')
        out.append(f'<rect x="{left}" y="{y + 4}" width="{p * width:.1f}" height="18" class="{kind}"/>')
        x = left + prior.get(label, 0.0) * width
        out.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{y + 1}" y2="{y + 25}" class="tick"/>')
        out.append(f'<text x="{left + width + 8}" y="{y + 18}" class="value">{p:.3f}</text>')
    return "".join(out) + "</svg>"


def uncertainty_split(aleatoric: float, epistemic: float, maximum: float) -> str:
    """Total uncertainty as one bar, split into its two parts, on the scale of the maximum entropy."""
    left, width = 10, 560
    a, e = (max(0.0, v) / maximum * width for v in (aleatoric, epistemic))
    return (
        _open(left + width + 70, 58, "Aleatoric and epistemic uncertainty in bits")
        + f'<rect x="{left}" y="8" width="{width}" height="18" class="track"/>'
        + f'<rect x="{left}" y="8" width="{a:.1f}" height="18" class="aleatoric"/>'
        + f'<rect x="{left + a:.1f}" y="8" width="{max(e, 1):.1f}" height="18" class="epistemic"/>'
        + f'<text x="{left}" y="46" class="key"><tspan class="aleatoric">■</tspan> aleatoric {aleatoric:.2f}'
        + f'  <tspan class="epistemic">■</tspan> epistemic {epistemic:.3f}'
        + f"  of at most {maximum:.2f} bits</text></svg>"
    )


def ternary(points: Float, labels: Sequence[str], mean: Sequence[float]) -> str:
    """Draws from a posterior on the three-label simplex, with its mean."""
    side, left, top = 300, 110, 34
    height = side * math.sqrt(3) / 2
    out = [_open(side + 2 * left, height + 74, "Posterior draws on the probability simplex")]
    out.append(_triangle(points, labels, mean, side, left, top))
    return "".join(out) + "</svg>"


def ternary_grid(
    title: str, triangles: Sequence[tuple[str, Float, Sequence[float]]], labels: Sequence[str]
) -> str:
    """Several posteriors side by side, two in a row: (heading, draws, mean) each."""
    side, left, top = 230, 115, 64
    width, height = side + 2 * left, side * math.sqrt(3) / 2 + 112
    rows = math.ceil(len(triangles) / 2)
    out = [_open(2 * width, rows * height, title)]
    for i, (heading, points, mean) in enumerate(triangles):
        x, y = i % 2 * width, i // 2 * height
        middle = f'x="{width / 2:.0f}" y="20" class="corner"'
        out.append(f'<g transform="translate({x:.0f} {y:.0f})"><text {middle}>{escape(heading)}</text>')
        out.append(_triangle(points, labels, mean, side, left, top) + "</g>")
    return "".join(out) + "</svg>"


def _triangle(
    points: Float, labels: Sequence[str], mean: Sequence[float], side: int, left: int, top: int
) -> str:
    height = side * math.sqrt(3) / 2
    corners = ((left, top + height), (left + side, top + height), (left + side / 2, top))

    def place(theta: Sequence[float]) -> tuple[float, float]:
        return (
            sum(t * c[0] for t, c in zip(theta, corners, strict=True)),
            sum(t * c[1] for t, c in zip(theta, corners, strict=True)),
        )

    out = ['<path d="M' + "L".join(f"{x:.1f} {y:.1f}" for x, y in corners) + 'Z" class="frame"/>']
    for theta in points:
        x, y = place(theta)
        out.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2" class="draw"/>')
    x, y = place(mean)
    out.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" class="mean"/>')
    for label, (x, y), dy in zip(labels, corners, (20, 38, -10), strict=True):
        out.append(f'<text x="{x:.1f}" y="{y + dy:.1f}" class="corner">{escape(_fit(label, 34))}</text>')
    return "".join(out)


def _open(width: float, height: float, title: str) -> str:
    return (
        f'<svg viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" role="img" '
        f'aria-label="{escape(title)}" xmlns="http://www.w3.org/2000/svg"><title>{escape(title)}</title>'
    )


def _fit(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
