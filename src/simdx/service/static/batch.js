// The batch view: a CSV read here, its rows classified a few at a time, the results listed and offered as a CSV.

import { ACTIONS, NONE, most, outcomeWords, outcomesOf } from "./answers.js";
import { callPatiently } from "./api.js";
import { format, notCsv, parse, textColumn, textOf } from "./csv.js";
import { $, el, percent, save, showNotes, tell } from "./dom.js";

const TEXTS = 16, MAX_ROWS = 20000, SHOWN = 100;
const state = { header: [], rows: [], done: [], stop: null, name: "" };

// Of another file or another panel: what is shown below must belong to what is chosen above.
export function forgetResults() {
  state.stop?.abort();
  $("batch-results").hidden = $("batch-progress").hidden = $("batch-download").hidden = true;
}

export async function readFile() {
  tell("batch-error", null);
  $("batch-run").disabled = $("batch-column").disabled = true;
  $("batch-column").replaceChildren();  // the columns of the file before
  forgetResults();
  const file = $("batch-file").files[0];
  if (!file) return;
  try {
    const text = await textOf(file), refused = notCsv(text);
    if (refused) throw new Error(refused);
    const [header, ...rows] = parse(text);
    if (!header || rows.length === 0) throw new Error("The file has no rows below its header.");
    // A comma that nobody quoted would cut a case short without a word.
    const ragged = rows.findIndex((r) => r.slice(header.length).some((field) => field.trim() !== ""));
    if (ragged >= 0) throw new Error(`Row ${ragged + 1} below the header has more fields than the header: quote texts that contain commas.`);
    if (rows.length > MAX_ROWS) throw new Error(`The file has ${rows.length} rows; the page takes ${MAX_ROWS}.`);
    Object.assign(state, { header, rows, name: file.name.replace(/\.csv$/i, "") });
    $("batch-column").replaceChildren(...header.map((h, k) => el("option", { value: k }, h || `column ${k + 1}`)));
    $("batch-column").value = String(textColumn(header, rows));
    $("batch-column").disabled = false;
    $("batch-run").disabled = false;
  } catch (error) {
    tell("batch-error", error.message);
  }
}

export async function run(event) {
  event.preventDefault();
  tell("batch-error", null);
  const panel = $("batch-panel").value, column = Number($("batch-column").value);
  const full = state.rows.map((row, i) => ({ i, text: row[column] ?? "" })).filter((t) => t.text.trim());
  const empty = state.rows.length - full.length;
  if (!full.length) { tell("batch-error", "This column is empty in every row: choose another."); return; }
  state.stop = new AbortController();
  state.done = [];
  for (const [id, hidden] of [["batch-progress", false], ["batch-results", false], ["batch-stop", false], ["batch-download", true]]) $(id).hidden = hidden;
  $("batch-run").disabled = true;
  $("batch-bar").max = full.length;
  const say = (end = "") => {
    $("batch-bar").value = state.done.length;
    $("batch-said").textContent = `${state.done.length} of ${full.length} rows${end}`;
    // The table shows no sentences, so it does not matter here that a busy service left them out.
    const notes = state.done.flatMap(({ answer }) => answer.provenance.notes).filter((note) => !note.includes("were left out: the service was busy"));
    showNotes($("batch-notes"), [...new Set(notes)]);
    showTally(empty);
    showFilters();
    showRows();
  };
  say();
  try {
    for (let start = 0; start < full.length; start += TEXTS) {
      const part = full.slice(start, start + TEXTS);
      const asked = { panel, texts: part.map((t) => t.text) };
      const answers = (await callPatiently("/v1/classify", asked, { signal: state.stop.signal })).data.results;
      part.forEach((t, k) => state.done.push({ ...t, answer: answers[k], outcome: most(outcomesOf(answers[k])) }));
      say();
    }
    say(": done.");
  } catch (error) {
    if (error.name === "AbortError") say(": stopped.");
    else { say(": stopped by an error."); tell("batch-error", error.message); }
  }
  $("batch-stop").hidden = true;
  $("batch-run").disabled = false;
  $("batch-download").hidden = state.done.length === 0;
}

const pill = ({ action, promise }, words = action) =>
  el("span", { class: "pill", "data-action": action, "data-promised": promise !== null }, words);

function showTally(empty) {
  $("batch-tally").replaceChildren(...ACTIONS.map((action) => {
    const its = state.done.filter(({ answer }) => answer.decision.action === action);
    const promised = its.find(({ answer }) => answer.decision.promise !== null);
    return el("li", {}, pill({ action, promise: promised ? "" : null }, `${action} ${its.length}`));
  }), ...(empty ? [el("li", { class: "hint" }, `${empty} empty`)] : []));
}

// The choices that the rows so far have; what was chosen stays.
function showFilters() {
  const labels = [...new Set(state.done.map((d) => d.outcome))].sort((a, b) => (a === NONE) - (b === NONE) || a.localeCompare(b));
  for (const [id, every, choices] of [["batch-action", "all", ACTIONS], ["batch-label", "all", labels]]) {
    const chosen = $(id).value;
    if ($(id).options.length === choices.length + 1) continue;
    $(id).replaceChildren(el("option", { value: "" }, every), ...choices.map((c) => el("option", { value: `is ${c}` }, c)));
    $(id).value = choices.includes(chosen.slice(3)) ? chosen : "";
  }
}

export function showRows() {
  const action = $("batch-action").value.slice(3), label = $("batch-label").value.slice(3);
  const found = state.done.filter((d) => (!action || d.answer.decision.action === action) && (!label || d.outcome === label));
  $("batch-shown").textContent = `${found.length} of ${state.done.length} rows${found.length > SHOWN ? `, the first ${SHOWN} below` : ""}`;
  $("batch-rows").replaceChildren(...found.slice(0, SHOWN).map(line));
}

function line({ i, text, answer, outcome }) {
  return el("tr", {}, el("td", { class: "num" }, String(i + 2)), el("td", { class: "clip" }, text),
    el("td", {}, outcomeWords(answer)), el("td", { class: "num" }, percent(outcomesOf(answer)[outcome])),
    el("td", { class: "num" }, answer.out_of_class === null ? "" : percent(answer.out_of_class, 0)),
    el("td", {}, pill(answer.decision)));
}

export function download() {
  const outcomes = Object.keys(outcomesOf(state.done[0].answer)), answers = new Map(state.done.map((d) => [d.i, d]));
  const header = [...state.header, "simdx_label", ...outcomes.map((l) => `p(${l})`), "nearest", "entropy_bits", "decision", "reason"];
  const rows = state.rows.map((row, i) => {
    const padded = state.header.map((_, k) => row[k] ?? ""), done = answers.get(i);
    if (!done) return [...padded, "", ...outcomes.map(() => ""), "", "", "", "not classified"];
    const { answer, outcome } = done, p = outcomesOf(answer);
    return [...padded, outcome, ...outcomes.map((l) => p[l]), answer.outside?.nearest[0]?.condition ?? "", answer.entropy_bits,
      answer.decision.action, answer.decision.reason];
  });
  save(`${state.name}-${$("batch-panel").value}.csv`, "text/csv", format([header, ...rows]));
}

export function stop() {
  state.stop?.abort();
}
