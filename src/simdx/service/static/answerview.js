// One answer in words and pictures: decision, checks, second order, details.

import { leadingLabel } from "./answers.js";
import { $, bits, el, percent, showNotes, tell } from "./dom.js";
import { split, spread, ternary } from "./pictures.js";

const sentence = (words) => `${words[0].toUpperCase()}${words.slice(1)}.`;

export function showDecision(answer, words) {
  const { action, reason, reasons, promise } = answer.decision;
  $("decision").dataset.action = action;
  // Green is for an accept that keeps to a rate of errors.
  $("decision").toggleAttribute("data-promised", promise !== null);
  $("decision-title").textContent = words.headline;
  // One reason is a sentence, several are a list.
  const several = reasons.length > 1 ? reasons : [];
  const said = several.length ? "" : sentence(reason);
  $("decision-reason").textContent = action === "review" ? `${said} Leading: ${words.leading}.`.trim() : said;
  $("decision-reasons").replaceChildren(...several.map((r) => el("li", {}, r)));
  $("decision-reasons").hidden = several.length === 0;
  // Nothing is said twice: an emergency beside a label may be among the reasons.
  const toldAlready = words.outside?.startsWith("also possible") && reasons.some((r) => r.includes("(emergency)"));
  tell("decision-outside", words.outside && !toldAlready ? sentence(words.outside) : null);
  $("decision-outside").classList.toggle("emergency", answer.outside?.nearest.some((near) => near.emergency && words.outside?.includes(near.condition)) ?? false);
  const promised = action === "accept" ? promise ?? "supported by labelled cases, no error rate guaranteed" : null;
  showNotes($("decision-notes"), [promised, answer.calibration?.sentence, ...answer.provenance.notes].filter(Boolean));
  $("spoken").textContent = [`${words.headline}.`, `Leading: ${words.leading}.`, $("decision-outside").textContent].join(" ").trim();
}

export function showChecks(answer, words) {
  const t = answer.typicality, unexplained = answer.unexplained?.length ?? 0;
  tell("outside-words", t === null ? null
    : `The text is ${t < 0.01 ? "unlike any simulated text" : t < 0.1 ? "unusual" : "not unusual"}: ${percent(t, 0)} of the simulated texts are at least as unusual.`);
  const told = answer.decision.reasons.some((r) => r.includes("not explained by"));  // nothing is said twice
  tell("unexplained-words", unexplained && !told ? `${unexplained === 1 ? "One sentence is" : `${unexplained} sentences are`} not explained by ${leadingLabel(answer)}: marked in the text below.` : null);
  const said = words.alarm === null || answer.decision.reasons.includes(words.alarm);  // nothing is said twice
  tell("alarm-words", said ? null : `${answer.alarm.flag ? "Alarm" : "No alarm"}: ${words.alarm}.`);
}

// The second order is open where it is the answer's own. Beside another method it is folded away.
export function showSecondOrder(answer, draws, words) {
  const second = answer.second_order, own = words.uncertainty_is_its_own;
  $("second").hidden = !second;
  if (!second) return;
  const labels = Object.keys(second.mean), mean = Object.values(second.mean);
  $("second-title").textContent = own ? "Spread of these probabilities" : "Second-order uncertainty, by D-SMC";
  tell("second-why", own ? null : "These figures differ from the answer: D-SMC is another method. It accepts simulated texts within a tolerance and does not weigh none of these.");
  if (own) $("second").open = true;
  $("simplex").replaceChildren(labels.length === 3 ? ternary(labels, draws, mean) : spread(labels, draws, mean));
  $("simplex-words").textContent = `${draws.length} draws from D-SMC's posterior; the ring is their mean.`;
  $("split").replaceChildren(...split(second, labels.length));
  $("split-words").textContent = words.uncertainty;
}

export function showDetails(answer, answerId) {
  const from = answer.provenance;
  const rows = [["Method", [answer.method, `${answer.engine} engine`, from.kernel && `${from.kernel} kernel`].filter(Boolean).join(", ")],
    ["Bank", from.bank], ["Embedder", from.embedder], ["Entropy", bits(answer.entropy_bits)],
    ["Typicality", answer.typicality?.toFixed(3) ?? "not given"],
    ["Effective simulations", answer.effective_simulations?.toFixed(1) ?? "not given"],
    answer.conformal_set ? ["Conformal set", answer.conformal_set.join(", ") || "empty"] : null,
    answer.flip ? ["Would change", `to ${answer.flip.label}, if the prior of ${answer.label} were below ${percent(answer.flip.prior, 2)}`] : null,
    ["Version", `simdx ${from.version}, seed ${from.seed}`], ["Answer", answerId ?? "not recorded"]];
  $("origin").replaceChildren(...rows.filter(Boolean).flatMap(([k, v]) => [el("dt", {}, k), el("dd", {}, v)]));
}
