// The case beside the simulations that carried its answer, sentences that say the same in one colour.

import { $, el } from "./dom.js";
import { segments } from "./match.js";

export function showEvidence(text, answer, pairs) {
  // One colour a case sentence; more than six would say nothing, so those with most partners.
  const partners = new Map();
  for (const p of pairs) partners.set(p.case, (partners.get(p.case) ?? 0) + 1);
  const chosen = [...partners].sort((a, b) => b[1] - a[1]).slice(0, 6).map(([sentence]) => sentence);
  chosen.sort((a, b) => text.indexOf(a) - text.indexOf(b));
  const colour = new Map(chosen.map((sentence, n) => [sentence, n]));
  const effects = new Map((answer.sentences ?? []).map((s) => [s.text, s.effect]));
  $("evidence-case").replaceChildren(...prose(segments(text, [...effects.keys(), ...chosen]), colour, new Map(), effects));
  $("evidence-list").replaceChildren(...answer.evidence.map((e, t) => {
    const mine = pairs.filter((p) => p.evidence === t && colour.has(p.case));
    const marks = new Map(mine.map((p) => [p.sentence, colour.get(p.case)]));
    const shared = new Map(mine.map((p) => [p.sentence, `shares: ${p.words.join(", ")}`]));
    return el("article", { class: e.label === answer.label ? "sheet" : "sheet other" },
      el("h3", {}, e.label, el("span", { class: "distance", title: "0: the same direction in the embedding; 1: nothing in common" }, `  distance ${e.distance.toFixed(2)}`)),
      el("p", { class: "prose" }, ...prose(segments(e.text, [...marks.keys()]), marks, shared)));
  }));
}

function prose(pieces, colour, shared, effects = new Map()) {
  return pieces.flatMap((sentence) => {
    const k = colour.get(sentence), effect = effects.get(sentence);
    const said = typeof effect === "number" && Math.abs(effect) >= 0.005
      ? el("span", { class: "effect", title: "What the leading label would lose without this sentence" }, `${effect > 0 ? "+" : "−"}${Math.abs(100 * effect).toFixed(0)} %`) : null;
    if (k === undefined) return [sentence, said].filter(Boolean);
    const mark = el("mark", { class: `k${k}`, "data-k": k, tabindex: 0, title: shared.get(sentence) }, sentence, el("sup", {}, String(k + 1)));
    for (const [on, lit] of [["mouseenter", true], ["mouseleave", false], ["focus", true], ["blur", false]]) {
      mark.addEventListener(on, () => document.querySelectorAll(`mark[data-k="${k}"]`).forEach((m) => m.classList.toggle("lit", lit)));
    }
    return [mark, said].filter(Boolean);
  });
}
