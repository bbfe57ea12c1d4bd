// A text cut at given sentences: joined again, the pieces are the text.

export function segments(text, given) {
  const found = [...new Set(given)].map((piece) => [text.indexOf(piece), piece]).filter(([at]) => at >= 0).sort((a, b) => a[0] - b[0]);
  const out = [];
  let from = 0;
  for (const [at, piece] of found) {
    if (at < from) continue;  // inside the one before
    if (at > from) out.push(text.slice(from, at));
    out.push(piece);
    from = at + piece.length;
  }
  if (from < text.length) out.push(text.slice(from));
  return out;
}
