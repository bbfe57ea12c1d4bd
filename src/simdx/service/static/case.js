// The case view: ask, show the answer, ask again under another prior as a slider moves.

import { call } from "./api.js";
import { $, bits, el, percent, showNotes } from "./dom.js";
import { showEvidence } from "./evidence.js";
import { gauge, split, spread, ternary } from "./pictures.js";
import { even, latestOnly, moved } from "./priors.js";

const DRAWS = 180;
const REST = 150;  // milliseconds without a move after which a slider rests
const ACTIONS = { accept: "Accept", test: "Test further", review: "Send to review" };
const state = { panel: null, prior: null, observation: null, answerId: null, text: "", rows: new Map(),
  method: null, settled: null, resting: null, lastPrior: null };
const ANSWER = ["result", "evidence-card", "after"];

export function setPanel(panel) {
  // An example of the last panel says nothing about this one; what was typed stays.
  if (state.panel?.examples.some((e) => e.text === $("text").value)) $("text").value = "";
  state.panel = panel;
  state.prior = even(panel.labels.map((l) => l.name));
  state.observation = state.lastPrior = null;
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
  if (!state.observation) return;
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
  if (state.observation && text !== state.text) forgetPrior();
  const button = $("classify");
  button.disabled = true;
  $("result").classList.add("stale");
  try {
    const started = performance.now(), { panel, prior } = state, method = $("method").value;
    const { data } = await call("/v1/explore", { panel: panel.id, text, prior, method, draws: DRAWS });
    if (state.panel.id !== panel.id) return;  // another panel was chosen while this was asked
    Object.assign(state, { text, method, observation: data.observation });
    buildRows();
    show(data, prior);
    took(started);
    showEvidence(text, data.answer);
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
  const { observation, method } = state;
  try {
    const { data } = await call(`/v1/explore/${observation}/preview`, { prior, method });
    if (state.observation !== observation || state.settled === prior) return;  // another case, or answered
    showBars(data);
    took(since);
  } catch (error) {
    if (error.kind !== "gone") $("took").textContent = error.message;
  }
});

const settle = latestOnly(async (prior) => {
  try {
    const body = { prior, method: state.method, draws: DRAWS };
    let reply;
    try {
      reply = await call(`/v1/explore/${state.observation}`, body);
    } catch (error) {
      if (error.kind !== "gone") throw error;
      // The service kept the case only for a while: bring it again.
      reply = await call("/v1/explore", { ...body, panel: state.panel.id, text: state.text });
      state.observation = reply.data.observation;
    }
    if (state.prior === prior) show(reply.data, prior);
  } catch (error) {
    $("took").textContent = error.message;
  }
});

function changePrior(prior, since = performance.now()) {
  state.prior = prior;
  if (state.observation) {
    preview({ prior, since });  // first: the question is on its way while the page draws the prior
    $("result").classList.add("moving");
    clearTimeout(state.resting);
    state.resting = setTimeout(settle, REST, prior);
  }
  showPrior();
}

function buildRows() {
  state.rows.clear();
  $("labels").replaceChildren(...state.panel.labels.map((label, k) => {
    const value = el("span", { class: "label-value" });
    const fill = el("div", { class: "fill" }), whisker = el("div", { class: "whisker" }), tick = el("div", { class: "tick" });
    const slider = el("input", { type: "range", id: `prior-${k}`, min: 0, max: 100, step: 1, "data-label": label.name,
      oninput: (event) => changePrior(moved(state.prior, label.name, Number(event.target.value) / 100), event.timeStamp) });
    const output = el("output", { for: `prior-${k}` });
    const row = el("div", { class: "label-row", "data-label": label.name },
      el("span", { class: "label-name", title: label.description }, label.name,
        label.must_not_miss ? el("span", { class: "flag", title: "Marked by the panel: must not be missed" }, "must not miss") : null),
      value, el("div", { class: "bar", "aria-hidden": "true" }, fill, whisker, tick),
      el("div", { class: "prior" },
        el("label", { for: `prior-${k}` }, "prior", el("span", { class: "hidden-visually" }, ` of ${label.name}`)), slider, output));
    state.rows.set(label.name, { row, value, fill, whisker, tick, slider, output });
    return row;
  }));
  // Nothing is chosen until somebody chooses it: one click must not record a diagnosis.
  $("feedback-label").replaceChildren(el("option", { value: "", disabled: true, selected: true }, "choose …"),
    ...state.panel.labels.map((l) => el("option", { value: `is ${l.name}` }, l.name)),
    el("option", { value: "none" }, "none of these"));
  showPrior();
}

function showPrior() {
  for (const [label, parts] of state.rows) {
    const p = state.prior[label];
    parts.tick.style.left = `${100 * p}%`;
    parts.output.textContent = percent(p);
    if (document.activeElement !== parts.slider) parts.slider.value = String(Math.round(100 * p));
    parts.slider.setAttribute("aria-valuetext", percent(p, 0));
  }
}

function showBars({ posterior, intervals }) {
  let lead = null;
  for (const label of state.rows.keys()) if (lead === null || posterior[label] > posterior[lead]) lead = label;
  for (const [label, parts] of state.rows) {
    const p = posterior[label], [low, high] = intervals[label];
    parts.row.classList.toggle("lead", label === lead);
    parts.value.textContent = percent(p);
    parts.value.title = `90 % interval ${percent(low)} to ${percent(high)}`;
    parts.fill.style.width = `${100 * p}%`;
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
  const { answer } = data;
  state.answerId = data.answer_id;
  state.settled = prior;
  showBars({ posterior: answer.posterior, intervals: data.intervals });
  const decision = $("decision");
  decision.dataset.action = answer.decision.action;
  const lead = `${answer.label}, ${percent(answer.posterior[answer.label], 0)}`, { action, reason, reasons } = answer.decision;
  // A case sent to review is not announced as the label it may well not be.
  $("decision-title").textContent = action === "review" ? ACTIONS.review : `${ACTIONS[action]}: ${lead}`;
  // One reason is a sentence, several are a list.
  const several = reasons.length > 1 ? reasons : [];
  const said = several.length ? "" : `${reason[0].toUpperCase()}${reason.slice(1)}.`;
  $("decision-reason").textContent = action === "review" ? `${said} Leading label: ${lead}.`.trim() : said;
  $("decision-reasons").replaceChildren(...several.map((r) => el("li", {}, r)));
  $("decision-reasons").hidden = several.length === 0;
  showNotes($("decision-notes"), [answer.calibration?.sentence, ...answer.provenance.notes].filter(Boolean));
  showOutside(answer);
  showSecondOrder(answer, data.draws, data.words);
  showAlarm(answer, data.words);
  showOrigin(answer);
  $("result").classList.remove("moving");
  $("result").dataset.answers = String(Number($("result").dataset.answers ?? 0) + 1);
  $("spoken").textContent = `${ACTIONS[answer.decision.action]}. ${answer.label}, ${percent(answer.posterior[answer.label], 0)}.`;
}

function showOutside(answer) {
  const value = answer.out_of_class;
  $("gauge").replaceChildren(value === null ? el("p", {}, "This bank has no background descriptions.") : gauge(value));
  const typical = answer.typicality === null ? "" :
    ` Typicality ${answer.typicality.toFixed(2)}: ${answer.typicality < 0.01 ? "unlike" : answer.typicality < 0.1 ? "at the edge of" : "in line with"} what was simulated.`;
  $("outside-words").textContent = (value === null ? "" :
    "Probability that the case belongs to no label of this panel. The mark is at one half.") + typical;
}

function showAlarm(answer, words) {
  $("alarm-words").textContent = words.alarm === null ? "" : `${answer.alarm.flag ? "Alarm" : "No alarm"}: ${words.alarm}.`;
}

function showSecondOrder(answer, draws, words) {
  const second = answer.second_order, labels = Object.keys(answer.posterior);
  if (!second) {
    $("simplex").replaceChildren();
    $("split").replaceChildren();
    $("simplex-words").textContent = $("split-words").textContent = "This method gives no second-order posterior.";
    return;
  }
  const mean = labels.map((l) => second.mean[l]);
  $("simplex").replaceChildren(labels.length === 3 ? ternary(labels, draws, mean) : spread(labels, draws, mean));
  $("simplex-words").textContent = `${draws.length} draws of what the class probabilities could be; the ring is their mean.`;
  $("split").replaceChildren(...split(second, labels.length));
  $("split-words").textContent = words.uncertainty;
}

function showOrigin(answer) {
  const from = answer.provenance;
  const rows = [["Method", `${answer.method}, ${answer.engine} engine, ${from.kernel} kernel`], ["Bank", from.bank],
    ["Embedder", from.embedder], ["Entropy", bits(answer.entropy_bits)],
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
