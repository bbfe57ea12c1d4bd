// The view that labels a dozen: texts in, the service says which to ask about, one click each, a file out.

import { NONE } from "./answers.js";
import { call } from "./api.js";
import { notCsv, parse, textColumn, textOf } from "./csv.js";
import { $, el, save, tell } from "./dom.js";

const FEWEST = 8, MOST = 2000, FULL = 20;
const state = { panel: null, texts: [], at: 0, labels: [], turn: 0 };  // labels: of the texts before `at`; null where skipped

// Of another panel: labels given for one are not those of another.
export function forget() {
  Object.assign(state, { texts: [], at: 0, labels: [], turn: state.turn + 1 });
  $("dozen-asking").hidden = true;
}

const lines = (text) => text.split(/\r?\n/).map((t) => t.trim()).filter(Boolean);

async function given() {
  const file = $("dozen-file").files[0];
  if (!file) return lines($("dozen-texts").value);
  const text = await textOf(file);
  if (!/\.csv$/i.test(file.name)) return lines(text);
  const refused = notCsv(text);
  if (refused) throw new Error(refused);
  const [header = [], ...rows] = parse(text), column = textColumn(header, rows);
  return rows.map((row) => (row[column] ?? "").trim()).filter(Boolean);
}

export async function start(event, panel) {
  event.preventDefault();
  forget();
  tell("dozen-error", null);
  const turn = state.turn, count = Math.min(FULL, Math.max(FEWEST, Math.round(Number($("dozen-count").value)) || 12));
  $("dozen-count").value = String(count);
  $("dozen-start").disabled = true;
  try {
    const texts = [...new Set(await given())];
    if (texts.length < FEWEST) throw new Error(`Give at least ${FEWEST} different texts, one per line; there are ${texts.length}.`);
    if (texts.length > MOST) throw new Error(`Give at most ${MOST} texts; there are ${texts.length}.`);
    const { data } = await call("/v1/ask", { panel: panel.id, texts, count });
    if (turn !== state.turn) return;  // another panel was chosen meanwhile
    Object.assign(state, { panel, texts: data.ask.map((i) => texts[i]) });
    $("dozen-labels").replaceChildren(...[...panel.labels.map((l) => l.name), NONE].map((name) =>
      el("button", { type: "button", onclick: () => answer(name) }, name)));
    $("dozen-command").textContent = `simdx panel calibrate ${panel.id} --data labelled.jsonl`;
    draw();
    $("dozen-asking").hidden = false;
    $("dozen-text").focus();
  } catch (error) {
    tell("dozen-error", error.message);
  } finally {
    $("dozen-start").disabled = false;
  }
}

const labelled = () => state.labels.filter((label) => label !== null).length;

function answer(label) {
  if (state.at >= state.texts.length) return;
  state.labels[state.at] = label;
  state.at += 1;
  draw();
}

export function skip() {
  answer(null);
}

export function undo() {
  if (state.at === 0) return;
  state.at -= 1;
  state.labels.length = state.at;
  draw();
}

function draw() {
  const over = state.at >= state.texts.length, n = labelled();
  const enough = n < FEWEST ? `${FEWEST - n} more are needed` : "you can stop at any time";
  $("dozen-said").textContent = over ? `All ${state.texts.length} texts were shown; ${n} are labelled.`
    : `Text ${state.at + 1} of ${state.texts.length}; ${n} labelled, ${enough}.`;
  $("dozen-text").textContent = over ? "" : state.texts[state.at];
  for (const button of [...$("dozen-labels").children, $("dozen-skip")]) button.disabled = over;
  $("dozen-undo").disabled = state.at === 0;
  $("dozen-save").disabled = n === 0;
  $("dozen-next").hidden = n < FEWEST;
}

export function download() {
  const rows = state.texts.slice(0, state.at).map((text, i) => ({ text, label: state.labels[i] })).filter((row) => row.label !== null);
  save("labelled.jsonl", "application/x-ndjson", rows.map((row) => `${JSON.stringify(row)}\n`).join(""));
}
