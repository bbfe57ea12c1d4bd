// The case view: ask, show the answer, ask again under another prior as a slider moves.

import { call } from "./api.js";
import { $, bits, el, percent, showNotes } from "./dom.js";
import { showEvidence } from "./evidence.js";
import { split, spread, ternary } from "./pictures.js";
import { even, latestOnly, moved } from "./priors.js";

const DRAWS = 180;
const REST = 150;  // milliseconds without a move after which a slider rests
const NONE = "none of these";
const state = { panel: null, prior: null, code: null, answerId: null, text: "", rows: new Map(),
  outcomes: {}, method: null, settled: null, resting: null, lastPrior: null };
const ANSWER = ["result", "evidence-card", "after"];

export function setPanel(panel) {
  // An example of the last panel says nothing about this one; what was typed stays.
  if (state.panel?.examples.some((e) => e.text === $("text").value)) $("text").value = "";
  state.panel = panel;
  state.prior = even(panel.labels.map((l) => l.name));
  state.code = state.lastPrior = null;
  clearTimeout(state.resting);
  $("panel-about").textContent = panel.description;
  $("panel-notice").textContent = panel.notice;
  $("h-feedback").textContent = $("feedback-said-of").textContent =
    panel.register === "general" ? "Final label" : "Final diagnosis";
  showExamples(panel.examples);
  $("method").replaceChildren(...panel.methods.map((m) => el("option", { value: m }, m)));
  showPriorNote();
  for (const id of ANSWER) $(id).hidden = true;
  $("waiting").hidden = false;
}

// An answer is about the text and the method it was asked with. Once either differs from what stands in the
// form, it cannot be read as one about the new text, moved, or given a final diagnosis.
export function checkOutdated() {
  if (!state.code) return;
  const text = $("text").value, empty = !text.trim();
  const outdated = text !== state.text || $("method").value !== state.method;
  if (outdated) clearTimeout(state.resting);
  for (const id of ANSWER) {
    $(id).hidden = empty;
    $(id).classList.toggle("outdated", outdated);
    $(id).inert = outdated;
  }
  $("waiting").hidden = !empty;
  $("outdated").hidden = !outdated || empty;
}

// Invented cases, where the panel has some: a click is enough to see an answer.
function showExamples(examples) {
  $("examples").hidden = examples.length === 0;
  $("example-list").replaceChildren(...examples.map(({ title, text }) => el("button", { type: "button", class: "chip",
    onclick: () => {
      $("text").value = text;
      checkOutdated();
      $("case-form").requestSubmit();
    } }, title)));
}

function complain(message) {
  const field = $("text"), said = $("text-error");
  said.textContent = message ?? "";
  said.hidden = !message;
  if (message) { field.setAttribute("aria-invalid", "true"); field.focus(); } else field.removeAttribute("aria-invalid");
}

export async function classify(event, showAlert) {
  event?.preventDefault();
  const text = $("text").value;
  if (!text.trim()) { complain("The case is empty: paste or type a description first."); return; }
  complain(null);
  showAlert(null);
  clearTimeout(state.resting);  // this asks under the present prior anyway
  if (state.code && text !== state.text) forgetPrior();
  const button = $("classify");
  button.disabled = true;
  $("result").classList.add("stale");
  try {
    const started = performance.now(), { panel, prior } = state, method = $("method").value;
    const { data } = await call("/v1/classify", { panel: panel.id, text, prior, method, draws: DRAWS });
    if (state.panel.id !== panel.id) return;  // another panel was chosen while this was asked
    Object.assign(state, { text, method, code: data.preview });
    buildRows();
    show(data, prior);
    took(started);
    showEvidence(text, data.answer, data.pairs);
    if (state.prior !== prior) changePrior(state.prior);  // a slider moved while this was asked
    $("waiting").hidden = true;
    for (const id of ANSWER) $(id).hidden = false;
    $("feedback-said").textContent = "";
    checkOutdated();  // the text may have been edited while this was asked
    // On a phone the answer lies below the form.
    if ($("result").getBoundingClientRect().top > innerHeight) $("result").scrollIntoView();
  } catch (error) {
    if (["empty-text", "invalid-body", "bad-input", "too-large"].includes(error.kind)) complain(error.message);
    else showAlert(error.message);
  } finally {
    button.disabled = false;
    $("result").classList.remove("stale");
  }
}

// While a slider moves, the bars follow it with previews. The answer, with its decision, its pictures and its
// record, comes once the slider rests; until then what belongs to the last answer is dimmed.
const preview = latestOnly(async ({ prior, since }) => {
  const { panel, text, method, code } = state;
  try {
    const { data } = await call("/v1/classify", { panel: panel.id, text, prior, method, preview: code });
    if (state.code !== code || state.method !== method || state.settled === prior) return;  // another case, or answered
    showBars(data);
    took(since);
  } catch (error) {
    $("took").textContent = error.message;
  }
});

const settle = latestOnly(async (prior) => {
  const { panel, text, method } = state;
  try {
    const { data } = await call("/v1/classify", { panel: panel.id, text, prior, method, draws: DRAWS });
    if (state.prior !== prior) return;
    show(data, prior);
    showEvidence(text, data.answer, data.pairs);
  } catch (error) {
    $("took").textContent = error.message;
  }
});

function changePrior(prior, since = performance.now()) {
  state.prior = prior;
  if (state.code) {
    preview({ prior, since });  // first: the question is on its way while the page draws the prior
    $("result").classList.add("moving");
    clearTimeout(state.resting);
    state.resting = setTimeout(settle, REST, prior);
  }
  showPrior();
}

function buildRows() {
  state.rows.clear();
  const labels = state.panel.labels.map((label, k) => {
    const slider = el("input", { type: "range", id: `prior-${k}`, min: 0, max: 100, step: 1, "data-label": label.name,
      oninput: (event) => changePrior(moved(state.prior, label.name, Number(event.target.value) / 100), event.timeStamp) });
    const output = el("output", { for: `prior-${k}` }), tick = el("div", { class: "tick" });
    return [label.name, label.description, { slider, output, tick },
      label.must_not_miss ? el("span", { class: "flag", title: "Marked by the panel: must not be missed" }, "must not miss") : null,
      el("div", { class: "prior" },
        el("label", { for: `prior-${k}` }, "prior", el("span", { class: "hidden-visually" }, ` of ${label.name}`)), slider, output)];
  });
  const none = [NONE, "That the case belongs to no label of this panel; from 50 % on it is sent to review", {}, null, null];
  for (const [name, title, parts, flag, prior] of [...labels, none]) {
    const value = el("span", { class: "label-value" }), fill = el("div", { class: "fill" }), whisker = el("div", { class: "whisker" });
    const row = el("div", { class: "label-row", "data-label": name }, el("span", { class: "label-name", title }, name, flag),
      value, el("div", { class: "bar" }, fill, whisker, parts.tick), prior);
    state.rows.set(name, { row, value, fill, whisker, ...parts });
  }
  // Nothing is chosen until somebody chooses it: one click must not record a diagnosis.
  $("feedback-label").replaceChildren(el("option", { value: "", disabled: true, selected: true }, "choose …"),
    ...state.panel.labels.map((l) => el("option", { value: `is ${l.name}` }, l.name)),
    el("option", { value: "none" }, NONE));
  showPrior();
}

// The labels by falling probability, none of these last. A row does not move from under the hand that holds its slider.
export function orderRows() {
  if ($("labels").contains(document.activeElement)) return;
  const { outcomes } = state;
  const names = Object.keys(outcomes).sort((a, b) => (a === NONE) - (b === NONE) || outcomes[b] - outcomes[a]);
  $("labels").replaceChildren(...names.map((name) => state.rows.get(name).row));
}

function showPrior() {
  for (const [label, parts] of state.rows) {
    if (!parts.slider) continue;  // none of these has no prior to set here
    const p = state.prior[label];
    parts.tick.title = `prior ${percent(p)}: the probability before the text is read`;
    parts.tick.style.left = `${100 * p}%`;
    parts.output.textContent = percent(p);
    if (document.activeElement !== parts.slider) parts.slider.value = String(Math.round(100 * p));
    parts.slider.setAttribute("aria-valuetext", percent(p, 0));
  }
}

function showBars({ outcomes, intervals }) {
  state.outcomes = outcomes;
  const lead = Object.keys(outcomes).reduce((a, b) => (outcomes[b] > outcomes[a] ? b : a));
  for (const [label, parts] of state.rows) {
    const p = outcomes[label], [low, high] = intervals[label] ?? [0, 0];
    parts.row.hidden = p === undefined;  // a bank without background knows no none of these
    if (p === undefined) continue;
    parts.row.classList.toggle("lead", label === lead);
    parts.value.textContent = percent(p);
    parts.fill.style.width = `${100 * p}%`;
    parts.whisker.hidden = !intervals[label];
    parts.whisker.title = `90 % interval ${percent(low)} to ${percent(high)}: how far another bank of this size could move it`;
    parts.whisker.style.left = `${100 * low}%`;
    parts.whisker.style.width = `${100 * (high - low)}%`;
  }
}

// How long it took since then, for the reader, and for whoever measures the page.
function took(since) {
  const milliseconds = performance.now() - since, { dataset } = $("result");
  $("took").textContent = `${milliseconds.toFixed(0)} ms`;
  dataset.ms = milliseconds.toFixed(1);
  dataset.count = String(Number(dataset.count ?? 0) + 1);
}

function show(data, prior) {
  const { answer, words } = data, { action, reason, reasons, promise } = answer.decision;
  state.answerId = data.answer_id;
  state.settled = prior;
  showBars(data);
  orderRows();
  $("decision").dataset.action = action;
  // Green is for an accept that keeps to a rate of errors.
  $("decision").toggleAttribute("data-promised", promise !== null);
  $("decision-title").textContent = words.headline;
  // One reason is a sentence, several are a list.
  const several = reasons.length > 1 ? reasons : [];
  const said = several.length ? "" : `${reason[0].toUpperCase()}${reason.slice(1)}.`;
  $("decision-reason").textContent = action === "review" ? `${said} Leading: ${words.leading}.`.trim() : said;
  $("decision-reasons").replaceChildren(...several.map((r) => el("li", {}, r)));
  $("decision-reasons").hidden = several.length === 0;
  const promised = action === "accept" ? promise ?? "no error rate is promised" : null;
  showNotes($("decision-notes"), [promised, answer.calibration?.sentence, ...answer.provenance.notes].filter(Boolean));
  showDoubts(answer, words);
  showSecondOrder(answer, data.draws, words);
  showOrigin(answer);
  $("result").classList.remove("moving");
  $("result").dataset.answers = String(Number($("result").dataset.answers ?? 0) + 1);
  $("spoken").textContent = `${words.headline}. Leading: ${words.leading}.`;
}

function showDoubts(answer, words) {
  const t = answer.typicality;
  $("outside-words").textContent = t === null ? "" :
    `The text is ${t < 0.01 ? "unlike" : t < 0.1 ? "at the edge of" : "in line with"} what was simulated: ${percent(t, 0)} of the simulated texts lie as far out.`;
  const said = words.alarm === null || answer.decision.reasons.includes(words.alarm);  // nothing is said twice
  $("alarm-words").textContent = said ? "" :
    `${answer.alarm.flag ? "Alarm" : "No alarm"}: ${words.alarm}.`;
}

// The second order is drawn around the answer where it is the answer's own; a second comparison stands by itself.
function showSecondOrder(answer, draws, words) {
  const second = answer.second_order, labels = Object.keys(answer.among_labels), own = words.uncertainty_is_its_own;
  $("second").hidden = !second;
  if (!second) return;
  $("second-title").textContent = own ? "Spread of these probabilities" : "A second comparison: D-SMC";
  if (own) $("second").open = true;
  const mean = labels.map((l) => second.mean[l]);
  $("simplex").replaceChildren(labels.length === 3 ? ternary(labels, draws, mean) : spread(labels, draws, mean));
  $("simplex-words").textContent = `${draws.length} draws of what D-SMC's probabilities could be; the ring is their mean.`;
  $("split").replaceChildren(...split(second, labels.length));
  $("split-words").textContent = words.uncertainty;
}

function showOrigin(answer) {
  const from = answer.provenance;
  const rows = [["Method", `${answer.method}, ${answer.engine} engine, ${from.kernel} kernel`], ["Bank", from.bank],
    ["Embedder", from.embedder], ["Entropy", bits(answer.entropy_bits)], ["Typicality", answer.typicality?.toFixed(3) ?? "not given"],
    ["Effective simulations", answer.effective_simulations?.toFixed(1) ?? "not given"],
    answer.conformal_set ? ["Conformal set", answer.conformal_set.join(", ") || "empty"] : null,
    answer.flip ? ["Would flip", `to ${answer.flip.label}, were the prior of ${answer.label} ${percent(answer.flip.prior, 2)}`] : null,
    ["Version", `simdx ${from.version}, seed ${from.seed}`], ["Answer", state.answerId ?? "not recorded"]];
  $("origin").replaceChildren(...rows.filter(Boolean).flatMap(([k, v]) => [el("dt", {}, k), el("dd", {}, v)]));
}

export async function sendFeedback(event) {
  event.preventDefault();
  const chosen = $("feedback-label").value;
  if (!chosen) { $("feedback-said").textContent = "Choose a label first: nothing was recorded."; return; }
  const label = chosen === "none" ? null : chosen.slice(3);
  try {
    const { data } = await call("/v1/feedback", { answer: state.answerId, label });
    $("feedback-said").textContent = data.agrees ? "Recorded: the answer agrees." : "Recorded: the answer differs.";
  } catch (error) {
    $("feedback-said").textContent = error.message;
  }
}

export function resetPrior() {
  changePrior(even(state.panel.labels.map((l) => l.name)));
}

// A prior is set for one case. The next text begins with an even one; the last can be taken up again.
function forgetPrior() {
  const fresh = even(state.panel.labels.map((l) => l.name));
  const set = Object.keys(fresh).some((label) => Math.abs(fresh[label] - state.prior[label]) > 1e-9);
  if (set) state.lastPrior = state.prior;
  state.prior = fresh;
  showPriorNote(set);
}

function showPriorNote(said = false) {
  $("prior-note").hidden = !said;
}

export function takeLastPrior() {
  showPriorNote();
  changePrior(state.lastPrior);
}
