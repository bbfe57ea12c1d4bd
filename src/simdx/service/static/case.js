// The case view: ask, show the answer, ask again under another prior as a slider moves.
//
// Everything shown belongs to `state.shown`, one answer with its question. A newer question, another panel or a
// case of the history raises `state.turn`; an answer that comes back to another turn is not shown.

import { NONE, most } from "./answers.js";
import { showChecks, showDecision, showDetails, showSecondOrder } from "./answerview.js";
import { call, callPatiently } from "./api.js";
import { $, el, percent, tell } from "./dom.js";
import { showEvidence } from "./evidence.js";
import * as history from "./history.js";
import { changed, even, latestOnly, moved } from "./priors.js";

const DRAWS = 180;
const REST = 150;  // milliseconds without a move after which a slider rests
const state = { panel: null, prior: null, shown: null, turn: 0, asking: 0, rows: new Map(), outcomes: {}, resting: null, lastPrior: null };
const ANSWER = ["result", "evidence-card", "after"];

export const shown = () => state.shown;
const names = () => state.panel.labels.map((l) => l.name);
// A panel of the service is asked by its name, one made of the library by its labels.
const asks = (panel) => (panel.made ? { panel: panel.id, labels: panel.labels.map((l) => l.name) } : { panel: panel.id });

export function setPanel(panel) {
  // An example of the last panel says nothing about this one; what was typed stays.
  if (state.panel?.examples.some((e) => e.text === $("text").value)) $("text").value = "";
  state.panel = panel;
  state.prior = even(names());
  state.shown = state.lastPrior = null;
  state.turn += 1;
  clearTimeout(state.resting);
  $("panel-about").textContent = panel.description;
  $("panel-notice").textContent = panel.notice;
  $("h-feedback").textContent = $("feedback-said-of").textContent =
    panel.register === "general" ? "Final label" : "Final diagnosis";
  $("feedback-form").hidden = Boolean(panel.made);  // no panel of the service: the log has its answers alone
  showExamples(panel.examples);
  $("method").replaceChildren(...panel.methods.map((m) => el("option", { value: m }, m)));
  showPriorNote();
  for (const id of [...ANSWER, "outdated"]) $(id).hidden = true;
  $("waiting").hidden = false;
}

// An answer is about the text and the method it was asked with. Once either differs from what stands in the
// form, it cannot be read as one about the new text, moved, or given a final label.
export function checkOutdated() {
  if (!state.shown) return;
  const text = $("text").value, empty = !text.trim(), outdated = isOutdated();
  if (outdated) clearTimeout(state.resting);
  for (const id of ANSWER) {
    $(id).hidden = empty;
    $(id).classList.toggle("outdated", outdated);
    $(id).inert = outdated;
  }
  $("waiting").hidden = !empty;
  $("outdated").hidden = !outdated || empty;
}

const isOutdated = () => $("text").value !== state.shown.text || $("method").value !== state.shown.method;

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
  const field = $("text");
  tell("text-error", message);
  if (message) { field.setAttribute("aria-invalid", "true"); field.focus(); } else field.removeAttribute("aria-invalid");
}

// Ask, and show the answer unless something newer was asked meanwhile.
async function ask(text, method, prior) {
  const { panel } = state, turn = state.turn += 1, started = performance.now();
  const asked = { ...asks(panel), text, prior, method, draws: DRAWS };
  // A panel of the library is made when it is first asked, which may take longer than a request may.
  const { data } = await (panel.made ? callPatiently : call)("/v1/classify", asked);
  if (turn !== state.turn) return false;
  show({ panel, text, method, prior, data });
  took(started);
  return true;
}

export async function classify(event, showAlert) {
  event?.preventDefault();
  const text = $("text").value;
  if (!text.trim()) { complain("The case is empty: paste or type a description first."); return; }
  complain(null);
  showAlert(null);
  clearTimeout(state.resting);  // this asks under the present prior anyway
  if (state.shown && text !== state.shown.text) forgetPrior();
  $("classify").disabled = true;
  $("result").classList.add("stale");
  state.asking += 1;
  try {
    // On a phone the answer lies below the form.
    if (await ask(text, $("method").value, state.prior) && $("result").getBoundingClientRect().top > innerHeight) $("result").scrollIntoView();
  } catch (error) {
    if (["empty-text", "invalid-body", "bad-input", "too-large"].includes(error.kind)) complain(error.message);
    else showAlert(error.message);
  } finally {
    state.asking -= 1;
    if (!state.asking) {
      $("classify").disabled = false;
      $("result").classList.remove("stale");
      // A slider moved while this was asked.
      if (state.shown && state.prior !== state.shown.prior && !isOutdated()) changePrior(state.prior);
    }
  }
}

// While a slider moves, the bars follow it with previews. The answer, with its decision, evidence and record,
// comes once the slider rests; until then what belongs to the last answer is dimmed.
const preview = latestOnly(async ({ prior, since }) => {
  const of = state.shown;
  if (!of) return;
  const { panel, text, method, data } = of;
  try {
    const reply = await call("/v1/classify", { ...asks(panel), text, prior, method, preview: data.preview });
    if (state.shown !== of) return;  // an answer came meanwhile
    showBars(reply.data);
    took(since);
  } catch (error) {
    $("took").textContent = error.message;
  }
});

async function settle() {
  const { text, method } = state.shown;
  try {
    await ask(text, method, state.prior);
  } catch (error) {
    $("took").textContent = error.message;
  }
}

function changePrior(prior, since = performance.now()) {
  state.prior = prior;
  if (state.shown && !state.asking) {
    state.turn += 1;  // an answer under the prior before is not shown any more
    preview({ prior, since });  // first: the question is on its way while the page draws the prior
    moving(true);
    clearTimeout(state.resting);
    state.resting = setTimeout(settle, REST);
  }
  showPrior();
}

function moving(on) {
  for (const id of ["result", "evidence-card"]) $(id).classList.toggle("moving", on);
  for (const id of ["save-html", "save-json"]) $(id).disabled = on;
}

function buildRows() {
  state.rows.clear();
  const labels = state.panel.labels.map((label, k) => {
    const slider = el("input", { type: "range", id: `prior-${k}`, min: 0, max: 100, step: 1, "data-label": label.name,
      oninput: (event) => changePrior(moved(state.prior, label.name, Number(event.target.value) / 100), event.timeStamp) });
    const output = el("output", { for: `prior-${k}` }), tick = el("div", { class: "tick" });
    return [label.name, label.description, { slider, output, tick },
      label.must_not_miss ? el("span", { class: "flag", title: "The panel marks this label: it must not be missed" }, "must not miss") : null,
      el("div", { class: "prior" },
        el("label", { for: `prior-${k}` }, "prior", el("span", { class: "hidden-visually" }, ` of ${label.name}`)), slider, output)];
  });
  const none = [NONE, "The case belongs to no label of this panel", {}, null, null];
  for (const [name, title, parts, flag, prior] of [...labels, none]) {
    const value = el("span", { class: "label-value" }), fill = el("div", { class: "fill" }), whisker = el("div", { class: "whisker" });
    const row = el("div", { class: "label-row", "data-label": name }, el("span", { class: "label-name", title }, name, flag),
      value, el("div", { class: "bar" }, fill, whisker, parts.tick), prior);
    state.rows.set(name, { row, value, fill, whisker, ...parts });
  }
  // Nothing is chosen until somebody chooses it: one click must not record a final label.
  $("feedback-label").replaceChildren(el("option", { value: "", disabled: true, selected: true }, "choose …"),
    ...names().map((name) => el("option", { value: `is ${name}` }, name)),
    el("option", { value: "none" }, NONE));
}

// The labels by falling probability, none of these last. A row does not move from under the hand that holds its slider.
export function orderRows() {
  if ($("labels").contains(document.activeElement)) return;
  const { outcomes } = state;
  const order = Object.keys(outcomes).sort((a, b) => (a === NONE) - (b === NONE) || outcomes[b] - outcomes[a]);
  $("labels").replaceChildren(...order.map((name) => state.rows.get(name).row));
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
  const label = changed(state.prior);
  $("prior-banner").hidden = label === null;
  if (label !== null) $("prior-words").textContent = `${label} has ${percent(state.prior[label], 0)} instead of ${percent(1 / names().length, 0)}`;
}

function showBars({ outcomes, intervals }) {
  state.outcomes = outcomes;
  const lead = most(outcomes);
  for (const [label, parts] of state.rows) {
    const p = outcomes[label], [low, high] = intervals[label] ?? [0, 0];
    parts.row.hidden = p === undefined;  // not every method weighs none of these
    if (p === undefined) continue;
    parts.row.classList.toggle("lead", label === lead);
    parts.value.textContent = percent(p);
    parts.fill.style.width = `${100 * p}%`;
    parts.whisker.hidden = !intervals[label];
    parts.whisker.title = `90 % interval, ${percent(low)} to ${percent(high)}: how far another bank of this size could move it`;
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

// The one way an answer comes on the page: all of it at once.
function show(asked) {
  const { data, text } = asked, { answer, words } = data, before = state.shown;
  state.shown = asked;
  if (before?.panel !== asked.panel || before.text !== text) buildRows();
  $("feedback-said").textContent = "";
  showBars(data);
  showPrior();
  orderRows();
  showDecision(answer, words);
  showChecks(answer, words);
  showSecondOrder(answer, data.draws, words);
  showEvidence(text, answer, data.pairs);
  showDetails(answer, data.answer_id);
  moving(false);
  checkOutdated();  // the text may have been edited while this was asked
  history.add(asked);
  $("result").dataset.answers = String(Number($("result").dataset.answers ?? 0) + 1);
}

// A case of the history, as it was answered; nothing is asked again. Its panel is set.
export function restore(asked) {
  state.turn += 1;
  clearTimeout(state.resting);
  state.prior = asked.prior;
  $("text").value = asked.text;
  $("method").value = asked.method;
  complain(null);
  show(asked);
}

export async function sendFeedback(event) {
  event.preventDefault();
  const chosen = $("feedback-label").value;
  if (!chosen) { $("feedback-said").textContent = "Choose a label first: nothing was recorded."; return; }
  const label = chosen === "none" ? null : chosen.slice(3);
  try {
    const { data } = await call("/v1/feedback", { answer: state.shown.data.answer_id, label });
    $("feedback-said").textContent = data.agrees ? "Recorded: the answer agrees." : "Recorded: the answer differs.";
  } catch (error) {
    $("feedback-said").textContent = error.message;
  }
}

export function resetPrior() {
  changePrior(even(names()));
}

// A prior is set for one case. The next text begins with an even one; the last can be taken up again.
function forgetPrior() {
  const set = changed(state.prior) !== null;
  if (set) state.lastPrior = state.prior;
  state.prior = even(names());
  showPriorNote(set);
}

function showPriorNote(said = false) {
  $("prior-note").hidden = !said;
}

export function takeLastPrior() {
  showPriorNote();
  changePrior(state.lastPrior);
}
