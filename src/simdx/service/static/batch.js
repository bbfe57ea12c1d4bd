// The batch view: a CSV read here, its rows classified a few at a time, the results offered as a CSV.

import { call } from "./api.js";
import { format, notCsv, parse } from "./csv.js";
import { $, el, percent, showNotes } from "./dom.js";

const TEXTS = 16, MAX_ROWS = 20000, MAX_BYTES = 50_000_000, SHOWN = 100;
const LIKELY = ["text", "case", "description", "note", "input_text", "report"];
const state = { header: [], rows: [], stop: null, url: null, name: "" };

function complain(message) {
  $("batch-error").textContent = message ?? "";
  $("batch-error").hidden = !message;
}

// Of another file or another panel: what is shown below must belong to what is chosen above.
export function forgetResults() {
  state.stop?.abort();
  $("batch-results").hidden = $("batch-progress").hidden = $("batch-download").hidden = true;
}

export async function readFile() {
  complain(null);
  $("batch-run").disabled = $("batch-column").disabled = true;
  $("batch-column").replaceChildren();  // the columns of the file before
  forgetResults();
  const file = $("batch-file").files[0];
  if (!file) return;
  try {
    if (file.size > MAX_BYTES) throw new Error("The file is over 50 MB: use 'simdx evaluate' or the API for it.");
    let text;
    try {
      text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
    } catch {
      throw new Error("The file is not UTF-8 text: save it as CSV UTF-8.");
    }
    const refused = notCsv(text);
    if (refused) throw new Error(refused);
    const [header, ...rows] = parse(text);
    if (!header || rows.length === 0) throw new Error("The file has no rows below its header.");
    // A comma that nobody quoted would cut a case short without a word.
    const ragged = rows.findIndex((r) => r.slice(header.length).some((field) => field.trim() !== ""));
    if (ragged >= 0) throw new Error(`Row ${ragged + 1} below the header has more fields than the header: quote texts that hold commas.`);
    if (rows.length > MAX_ROWS) throw new Error(`The file has ${rows.length} rows; the page takes ${MAX_ROWS}.`);
    Object.assign(state, { header, rows, name: file.name.replace(/\.csv$/i, "") });
    const guess = header.findIndex((h) => LIKELY.includes(h.trim().toLowerCase()));
    const length = (k) => rows.slice(0, 50).reduce((sum, r) => sum + (r[k] ?? "").length, 0);
    const longest = header.reduce((best, _, k) => (length(k) > length(best) ? k : best), 0);
    $("batch-column").replaceChildren(...header.map((h, k) => el("option", { value: k }, h || `column ${k + 1}`)));
    $("batch-column").value = String(guess >= 0 ? guess : longest);
    $("batch-column").disabled = false;
    $("batch-run").disabled = false;
  } catch (error) {
    complain(error.message);
  }
}

const pause = (seconds) => new Promise((resolve) => setTimeout(resolve, 1000 * seconds));

async function send(panel, texts, signal) {
  // A busy service says when to come back; everything else is for the user to see.
  for (let attempt = 0; ; attempt += 1) {
    try {
      return (await call("/v1/classify", { panel, texts }, { signal })).data.results;
    } catch (error) {
      if (![429, 503].includes(error.status) || attempt === 5) throw error;
      await pause(error.retryAfter ?? 1);
    }
  }
}

export async function run(event) {
  event.preventDefault();
  complain(null);
  const panel = $("batch-panel").value, column = Number($("batch-column").value);
  const todo = state.rows.map((row, i) => ({ i, text: row[column] ?? "" }));
  const results = new Array(todo.length).fill(null);
  const full = todo.filter((t) => t.text.trim());
  if (!full.length) { complain("This column is empty in every row: choose another."); return; }
  state.stop = new AbortController();
  for (const [id, hidden] of [["batch-progress", false], ["batch-results", false], ["batch-stop", false], ["batch-download", true]]) $(id).hidden = hidden;
  $("batch-run").disabled = true;
  $("batch-rows").replaceChildren();
  $("batch-bar").max = full.length;
  const tally = { accept: 0, likely: 0, test: 0, review: 0 };
  const notes = new Set();
  let promised = false;  // do accepted answers keep to a rate of errors?
  let done = 0;
  const tell = (end = "") => {
    $("batch-bar").value = done;
    $("batch-said").textContent = `${done} of ${full.length} rows${end}`;
    $("batch-tally").replaceChildren(...Object.entries(tally).map(([action, n]) => el("li", {}, el("span", { class: "pill", "data-action": action, "data-promised": promised }, `${action} ${n}`))),
      ...(todo.length > full.length ? [el("li", { class: "hint" }, `${todo.length - full.length} empty`)] : []));
  };
  tell();
  showNotes($("batch-notes"), []);
  try {
    for (let start = 0; start < full.length; start += TEXTS) {
      const part = full.slice(start, start + TEXTS);
      const answers = await send(panel, part.map((t) => t.text), state.stop.signal);
      for (const answer of answers) for (const note of answer.provenance.notes) notes.add(note);
      showNotes($("batch-notes"), [...notes]);
      part.forEach((t, k) => {
        results[t.i] = answers[k];
        tally[answers[k].decision.action] += 1;
        promised ||= answers[k].decision.promise !== null;
        if ($("batch-rows").childElementCount < SHOWN) $("batch-rows").append(line(t, answers[k]));
      });
      done += part.length;
      tell();
    }
    tell(": done.");
  } catch (error) {
    if (error.name === "AbortError") tell(": stopped.");
    else { tell(": stopped by an error."); complain(error.message); }
  }
  $("batch-stop").hidden = true;
  $("batch-run").disabled = false;
  if (done) offer(results, panel);
}

function line(t, answer) {
  return el("tr", {}, el("td", { class: "num" }, String(t.i + 2)), el("td", { class: "clip" }, t.text),
    el("td", {}, answer.label), el("td", { class: "num" }, percent(answer.posterior[answer.label])),
    el("td", { class: "num" }, answer.out_of_class === null ? "" : percent(answer.out_of_class, 0)),
    el("td", {}, el("span", { class: "pill", "data-action": answer.decision.action, "data-promised": answer.decision.promise !== null }, answer.decision.action)));
}

function offer(results, panel) {
  const first = results.find(Boolean), labels = Object.keys(first.posterior);
  const header = [...state.header, "simdx_label", ...labels.map((l) => `p(${l})`), "entropy_bits", "out_of_class", "decision", "reason"];
  const rows = state.rows.map((row, i) => {
    const padded = state.header.map((_, k) => row[k] ?? "");
    const a = results[i];
    if (!a) return [...padded, "", ...labels.map(() => ""), "", "", "", "not classified"];
    return [...padded, a.label, ...labels.map((l) => a.posterior[l]), a.entropy_bits, a.out_of_class, a.decision.action, a.decision.reason];
  });
  if (state.url) URL.revokeObjectURL(state.url);
  state.url = URL.createObjectURL(new Blob([format([header, ...rows])], { type: "text/csv" }));
  const link = $("batch-download");
  link.href = state.url;
  link.download = `${state.name}-${panel}.csv`;
  link.hidden = false;
}

export function stop() {
  state.stop?.abort();
}
