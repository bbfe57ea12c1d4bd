// Priors as sliders: the moved label takes its value, the others keep their proportions in what is left.

export function even(labels) {
  return Object.fromEntries(labels.map((label) => [label, 1 / labels.length]));
}

export function moved(prior, label, value) {
  const v = Math.min(1, Math.max(0, value));
  const others = Object.keys(prior).filter((other) => other !== label);
  const before = others.reduce((sum, other) => sum + prior[other], 0);
  const next = { [label]: v };
  for (const other of others) {
    next[other] = before > 1e-9 ? (1 - v) * prior[other] / before : (1 - v) / others.length;
  }
  // Keep the panel's order: objects remember the order of insertion.
  return Object.fromEntries(Object.keys(prior).map((name) => [name, next[name]]));
}

// The label whose prior differs most from an even one; null where none does.
export function changed(prior) {
  const labels = Object.keys(prior), away = (label) => Math.abs(prior[label] - 1 / labels.length);
  const label = labels.reduce((a, b) => (away(b) > away(a) + 1e-9 ? b : a));
  return away(label) > 1e-9 ? label : null;
}

// At most one question under way; of those asked meanwhile only the last matters.
export function latestOnly(ask) {
  let busy = false, waiting = null;
  return async function run(value) {
    if (busy) { waiting = { value }; return; }
    busy = true;
    try {
      await ask(value);
    } finally {
      busy = false;
      if (waiting !== null) {
        const { value: next } = waiting;
        waiting = null;
        run(next);
      }
    }
  };
}
