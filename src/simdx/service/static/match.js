// A text cut into pieces: joined again, the pieces are the text.

// At given sentences. Of two that overlap, the one that begins first counts, then the longer one.
export function segments(text, given) {
  const found = [...new Set(given)].map((piece) => [text.indexOf(piece), piece]).filter(([at, piece]) => at >= 0 && piece)
    .sort((a, b) => a[0] - b[0] || b[1].length - a[1].length);
  const out = [];
  let from = 0;
  for (const [at, piece] of found) {
    if (at < from) continue;
    if (at > from) out.push(text.slice(from, at));
    out.push(piece);
    from = at + piece.length;
  }
  if (from < text.length) out.push(text.slice(from));
  return out;
}

// At spans with an assertion: [[piece, assertion or null], …] of the characters from `start` to `end`.
export function asserted(text, spans, start, end) {
  const out = [];
  let from = start;
  for (const span of spans) {
    const low = Math.max(span.start, from), high = Math.min(span.end, end);
    if (high <= low) continue;
    if (low > from) out.push([text.slice(from, low), null]);
    out.push([text.slice(low, high), span.assertion]);
    from = high;
  }
  if (from < end) out.push([text.slice(from, end), null]);
  return out;
}

// The service counts characters, a browser counts UTF-16 units: they differ after an emoji. In order of place.
export function inUnits(text, spans) {
  const units = [];
  let at = 0;
  for (const character of text) { units.push(at); at += character.length; }
  units.push(at);
  const place = (n) => units[Math.min(n, units.length - 1)];
  return spans.map((s) => ({ ...s, start: place(s.start), end: place(s.end) })).sort((a, b) => a.start - b.start);
}
