"""M-SMC's two closed forms in plain Python, atom by atom: slow, obvious, and independent of the engine."""

import math
from collections import Counter
from collections.abc import Sequence

TIE = 1e-6


def atoms_of(bank, labels, z, prior):
    """[(distance, label, mass)] from nearest to farthest."""
    total = Counter(labels)
    out = []
    for vector, label in zip(bank, labels, strict=True):
        cosine = math.fsum(float(a) * float(b) for a, b in zip(vector, z, strict=True))
        out.append((1 - cosine, int(label), prior[label] / total[label]))
    return sorted(out)


def blocks_of(atoms):
    """Atoms grouped by equal distance."""
    groups: list[list] = []
    for atom in atoms:
        if groups and atom[0] - groups[-1][-1][0] <= TIE:
            groups[-1].append(atom)
        else:
            groups.append([atom])
    return groups


def shares(kept: Sequence[tuple[int, float]], n_labels: int) -> list[float]:
    total = math.fsum(mass for _, mass in kept)
    return [math.fsum(m for label, m in kept if label == k) / total for k in range(n_labels)]


def whole_atom(atoms, n_labels: int, populations: int):
    """Every population keeps whole blocks up to the first at which half of what was left is reached."""
    groups = blocks_of(atoms)
    masses = [math.fsum(a[2] for a in group) for group in groups]
    left = math.fsum(masses)
    count = len(groups)
    history = []
    for _ in range(populations):
        reached, count = 0.0, 0
        while reached < 0.5 * left * (1 - 1e-9):
            reached += masses[count]
            count += 1
        left = reached
        kept = [(label, mass) for group in groups[:count] for _, label, mass in group]
        history.append((groups[count - 1][-1][0], left, shares(kept, n_labels)))
    return history


def acceptance(history, prior, stay: float = 0.5) -> list[float]:
    """Of proposals in each population: ancestors of the one before, moved by DiscreteJump."""
    possible = sum(p > 0 for p in prior)
    proposal, rates = list(prior), []
    for _, left, share in history:
        inside = [left * s / p if p > 0 else 0.0 for s, p in zip(share, prior, strict=True)]
        rates.append(math.fsum(q * r for q, r in zip(proposal, inside, strict=True)))
        moved = [stay * s + (1 - stay) * (1 - s) / (possible - 1) for s in share]
        proposal = [m if p > 0 else 0.0 for m, p in zip(moved, prior, strict=True)]
    return rates


def fractional(atoms, n_labels: int, populations: int) -> list[float]:
    """Exactly 2^-T of mass is kept; the block at the boundary counts in part."""
    target = 0.5**populations
    kept: list[tuple[int, float]] = []
    reached = 0.0
    for group in blocks_of(atoms):
        mass = math.fsum(a[2] for a in group)
        if reached + mass >= target * (1 - 1e-12):
            part = (target - reached) / mass
            kept += [(label, m * part) for _, label, m in group]
            break
        kept += [(label, m) for _, label, m in group]
        reached += mass
    return shares(kept, n_labels)


def soft(atoms, n_labels: int, bandwidth: float) -> tuple[list[float], float]:
    nearest = min(d for d, _, m in atoms if m > 0)
    weights = [(label, m * math.exp(-(d - nearest) / bandwidth)) for d, label, m in atoms]
    total = math.fsum(w for _, w in weights)
    return shares(weights, n_labels), total**2 / math.fsum(w * w for _, w in weights)


def absolute(atoms, n_labels: int, tolerance: float) -> list[float] | None:
    kept = [(label, m) for d, label, m in atoms if d <= tolerance and m > 0]
    return shares(kept, n_labels) if kept else None
