// One reading of an answer's JSON for the whole page.

export const NONE = "none of these";
export const ACTIONS = ["accept", "likely", "test", "review"];

// The probabilities of all outcomes, together one. Methods that do not weigh none of these have the labels alone.
export function outcomesOf(answer) {
  const { posterior, out_of_class: none } = answer;
  if (none === null || NONE in posterior) return posterior;
  const among = answer.among_labels;
  return { ...Object.fromEntries(Object.entries(among).map(([label, p]) => [label, (1 - none) * p])), [NONE]: none };
}

export const most = (outcomes) => Object.keys(outcomes).reduce((a, b) => (outcomes[b] > outcomes[a] ? b : a));

// The label of most probability, whatever none of these has: what evidence and marks are about.
export function leadingLabel(answer) {
  const { [NONE]: _, ...labels } = outcomesOf(answer);
  return most(labels);
}

// The outcome in a table cell: a label, or none of these with the nearest condition of the library.
export function outcomeWords(answer) {
  const lead = most(outcomesOf(answer)), near = answer.outside?.nearest[0];
  if (lead !== NONE || !near) return lead;
  return `${NONE}; nearest: ${near.condition}${near.emergency ? " (emergency)" : ""}`;
}
