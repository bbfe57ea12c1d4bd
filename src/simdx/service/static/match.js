// Which sentences of two texts say the same: by the words they share, weighted by how rare each is here.

const COMMON = new Set(("a an the and or but of in on at to for from with without by as is are was were be been has have had it its this that these those he she they his her their there which who no not any some all also then than after before over under about into out up down over during since per very more most i my me we our you your year years old man woman male female patient month months week weeks day days ago reports presents comes").split(" "));

// Cuts that lose nothing: joined again, the pieces are the text. "2.5 cm" and "Dr. smith" stay whole.
export const sentences = (text) => text.split(/(?<=[.!?]["')\]]?)(?=\s+["'(]?[\p{Lu}\d])|(?<=\n)/u).filter((s) => s !== "");

// The service's own sentences, where it gives them, found again in the text; ours otherwise.
export function segments(text, given) {
  if (!given?.length) return sentences(text);
  const out = [];
  let from = 0;
  for (const piece of given) {
    const at = text.indexOf(piece, from);
    if (at < 0) return sentences(text);
    const end = at + piece.length;
    if (text.slice(from, at).trim()) out.push(text.slice(from, at));
    out.push(text.slice(text.slice(from, at).trim() ? at : from, end));
    from = end;
  }
  if (from < text.length) out.push(text.slice(from));
  return out;
}

const words = (sentence) => new Set((sentence.toLowerCase().match(/[\p{L}\d]{3,}/gu) ?? [])
  .filter((w) => !COMMON.has(w)).map((w) => w.replace(/(ing|ed|es|s)$/, "")));

// For each sentence of the case, its partner in each text: [{case: i, text: t, sentence: j, score}].
export function partners(caseSentences, texts) {
  const mine = caseSentences.map(words);
  const theirs = texts.map((t) => sentences(t).map(words));
  const seen = new Map();
  for (const set of [...mine, ...theirs.flat()]) for (const w of set) seen.set(w, (seen.get(w) ?? 0) + 1);
  const total = mine.length + theirs.flat().length;
  const weight = (w) => Math.log(1 + total / seen.get(w));
  const size = (set) => [...set].reduce((sum, w) => sum + weight(w), 0);
  const found = [];
  mine.forEach((a, i) => theirs.forEach((list, t) => {
    let best = { score: 0 };
    list.forEach((b, j) => {
      const shared = [...a].filter((w) => b.has(w));
      if (shared.length < 2) return;
      const score = shared.reduce((sum, w) => sum + weight(w), 0) / Math.sqrt(size(a) * size(b));
      if (score > best.score) best = { case: i, text: t, sentence: j, score };
    });
    if (best.score >= 0.22) found.push(best);
  }));
  return found;
}
