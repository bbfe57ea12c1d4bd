// The case beside the simulations that carried its answer, sentences that say the same in one colour.

import { $, el } from "./dom.js";
import { partners, segments, sentences } from "./match.js";

export function showEvidence(text, answer) {
  const mine = segments(text, (answer.sentences ?? []).map((s) => s.text));
  const found = partners(mine, answer.evidence.map((e) => e.text));
  // One colour a case sentence, in order of how strongly it is echoed; more than six would say nothing.
  const strength = new Map();
  for (const f of found) strength.set(f.case, (strength.get(f.case) ?? 0) + f.score);
  const chosen = [...strength].sort((a, b) => b[1] - a[1]).slice(0, 6).map(([i]) => i).sort((a, b) => a - b);
  const colour = new Map(chosen.map((i, n) => [i, n]));
  const effects = new Map((answer.sentences ?? []).map((s) => [s.text.trim(), s.effect]));
  $("evidence-case").replaceChildren(...prose(mine, (i) => colour.get(i), effects));
  $("evidence-list").replaceChildren(...answer.evidence.map((e, t) => {
    const marks = new Map(found.filter((f) => f.text === t && colour.has(f.case)).map((f) => [f.sentence, colour.get(f.case)]));
    return el("article", { class: e.label === answer.label ? "sheet" : "sheet other" },
      el("h3", {}, e.label, el("span", { class: "distance" }, `  distance ${e.distance.toFixed(2)}`)),
      el("p", { class: "prose" }, ...prose(sentences(e.text), (j) => marks.get(j))));
  }));
}

function prose(pieces, colourOf, effects = new Map()) {
  return pieces.flatMap((sentence, i) => {
    const k = colourOf(i), effect = effects.get(sentence.trim());
    const said = typeof effect === "number" && Math.abs(effect) >= 0.005
      ? el("span", { class: "effect", title: "How this sentence moves the leading label" }, `${effect > 0 ? "+" : "−"}${Math.abs(100 * effect).toFixed(0)} %`) : null;
    if (k === undefined) return [sentence, said].filter(Boolean);
    const space = sentence.match(/^\s*/)[0];
    const mark = el("mark", { class: `k${k}`, "data-k": k, tabindex: 0 }, sentence.trim(), el("sup", {}, String(k + 1)));
    for (const [on, lit] of [["mouseenter", true], ["mouseleave", false], ["focus", true], ["blur", false]]) {
      mark.addEventListener(on, () => document.querySelectorAll(`mark[data-k="${k}"]`).forEach((m) => m.classList.toggle("lit", lit)));
    }
    return [space, mark, said].filter(Boolean);
  });
}
