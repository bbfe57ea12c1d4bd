// The case beside the simulated texts that carried its answer: sentences that share words have one colour,
// denied findings are struck through, findings of others are grey.

import { leadingLabel } from "./answers.js";
import { $, el } from "./dom.js";
import { asserted, inUnits, segments } from "./match.js";

const TAGS = { negated: "s", possible: "span", hypothetical: "span", past: "span", family: "span", normal: "span" };
const SAID = { negated: "denied", possible: "possible", hypothetical: "hypothetical", past: "in the past", family: "of another person", normal: "normal" };

export function showEvidence(text, answer, allPairs) {
  const label = leadingLabel(answer), unexplained = new Set(answer.unexplained ?? []);
  const spans = inUnits(text, answer.spans ?? []);
  const pairs = allPairs.filter((pair) => isPresent(pair, text, spans));
  // At most six colours: the case sentences with most partners.
  const partners = new Map();
  for (const p of pairs) partners.set(p.case, (partners.get(p.case) ?? 0) + 1);
  const chosen = [...partners].sort((a, b) => b[1] - a[1]).slice(0, 6).map(([sentence]) => sentence);
  chosen.sort((a, b) => text.indexOf(a) - text.indexOf(b));
  const colour = new Map(chosen.map((sentence, n) => [sentence, n]));
  const effects = new Map((answer.sentences ?? []).map((s) => [s.text, s.effect]));
  let at = 0;
  $("evidence-case").replaceChildren(...segments(text, [...unexplained, ...effects.keys(), ...chosen]).flatMap((sentence) => {
    const from = at;
    at += sentence.length;
    const words = asserted(text, spans, from, at).map(([piece, assertion]) => (assertion === null ? piece
      : el(TAGS[assertion], { class: assertion, title: SAID[assertion] }, piece)));
    return [...marked(words, colour.get(sentence)), effectOf(effects.get(sentence), answer.label),
      unexplained.has(sentence) ? el("strong", { class: "unexplained" }, `not explained by ${label}${flagsOf(sentence, answer)}`) : null].filter(Boolean);
  }));
  for (const item of $("reading-legend").children) {
    item.hidden = !$("evidence-case").querySelector(item.dataset.of.split(" ").map((c) => `.${c}`).join(","));
  }
  $("reading-legend").hidden = [...$("reading-legend").children].every((item) => item.hidden);
  $("evidence-marks").hidden = colour.size === 0;
  $("evidence-list").replaceChildren(...answer.evidence.map((e, t) => {
    const mine = pairs.filter((p) => p.evidence === t && colour.has(p.case));
    const marks = new Map(mine.map((p) => [p.sentence, p]));
    return el("article", { class: e.label === label ? "sheet" : "sheet other" },
      el("h3", {}, e.label, el("span", { class: "distance", title: "Cosine distance of the embeddings: 0 is the same direction, 1 is nothing in common" }, `  distance ${e.distance.toFixed(2)}`)),
      el("p", { class: "prose" }, ...segments(e.text, [...marks.keys()]).flatMap((sentence) => {
        const pair = marks.get(sentence);
        return marked([sentence], colour.get(pair?.case), pair && `shares: ${pair.words.join(", ")}`);
      })));
  }));
}

function flagsOf(sentence, answer) {
  const flags = (answer.red_flags ?? []).filter((flag) => flag.sentence === sentence);
  return flags.length ? ` (${flags.map((flag) => `${flag.finding}, a red flag of ${flag.condition}`).join("; ")})` : "";
}

// Are some of the shared words the patient's own present? A denied finding is not shown as support.
function isPresent(pair, text, spans) {
  const start = text.indexOf(pair.case);
  if (start < 0) return true;
  const present = asserted(text, spans, start, start + pair.case.length)
    .filter(([, assertion]) => assertion === null || assertion === "possible").map(([piece]) => piece.toLowerCase()).join(" ");
  return pair.words.some((word) => present.includes(word));
}

function effectOf(effect, label) {
  if (typeof effect !== "number" || Math.abs(effect) < 0.005) return null;
  const said = `${effect > 0 ? "+" : "−"}${Math.abs(100 * effect).toFixed(0)} %`;
  return el("span", { class: "effect", title: `Change in the probability of ${label} due to this sentence` }, said);
}

// Words with the colour of their pair, which lights up with its partners; as they are where there is none.
function marked(words, k, title) {
  if (k === undefined) return words;
  const light = (on) => () => document.querySelectorAll(`mark[data-k="${k}"]`).forEach((m) => m.classList.toggle("lit", on));
  return [el("mark", { class: `k${k}`, "data-k": k, tabindex: 0, title, onmouseenter: light(true), onmouseleave: light(false),
    onfocus: light(true), onblur: light(false) }, ...words, el("sup", {}, String(k + 1)))];
}
