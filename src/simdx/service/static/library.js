// The view for a new panel: labels found in the library, a panel of them to use at once or to take home.

import { call } from "./api.js";
import { $, el, save, tell } from "./dom.js";

const MOST = 20, WAIT = 200;  // labels of a panel; milliseconds after a key before the library is asked
const state = { chosen: [], turn: 0, waiting: null };

export function search() {
  clearTimeout(state.waiting);
  state.waiting = setTimeout(find, WAIT);
}

export async function find(event) {
  event?.preventDefault();
  clearTimeout(state.waiting);
  const query = $("library-query").value.trim(), turn = state.turn += 1;
  tell("library-error", null);
  if (!query) { $("library-found").replaceChildren(); $("library-said").textContent = ""; return; }
  try {
    const { data } = await call(`/v1/library?${new URLSearchParams({ q: query })}`);
    if (turn !== state.turn) return;  // another query was typed meanwhile
    const exact = data.found.some((entry) => entry.how !== "meaning");
    $("library-said").textContent = exact ? "" : "No entry has this name. The nearest by meaning:";
    $("library-found").replaceChildren(...data.found.map((entry) => row(entry, "Add", () => add(entry))));
  } catch (error) {
    if (turn === state.turn) tell("library-error", error.message);
  }
}

function row(entry, action, onclick) {
  const about = [entry.system, entry.icd10, entry.aliases.slice(0, 3).join(", ")].filter(Boolean).join(" · ");
  return el("li", {}, el("span", {}, el("b", {}, entry.name), entry.emergency ? el("span", { class: "flag" }, "emergency") : null,
    el("span", { class: "hint" }, ` ${about}`)),
  el("button", { type: "button", class: "quiet", "aria-label": `${action} ${entry.name}`, onclick }, action));
}

function add(entry) {
  if (state.chosen.length >= MOST) { tell("library-error", `A panel made here has at most ${MOST} labels.`); return; }
  if (!state.chosen.some((other) => other.name === entry.name)) state.chosen.push(entry);
  draw();
  $("library-query").select();
  $("library-query").focus();
}

function draw() {
  $("library-chosen").replaceChildren(...state.chosen.map((entry) => row(entry, "Remove", () => {
    state.chosen = state.chosen.filter((other) => other !== entry);
    draw();
  })));
  for (const id of ["library-use", "library-download"]) $(id).disabled = state.chosen.length < 2;
}

async function made() {
  tell("library-error", null);
  try {
    const query = new URLSearchParams(state.chosen.map((entry) => ["label", entry.name]));
    return (await call(`/v1/library/panel?${query}`)).data;
  } catch (error) {
    tell("library-error", error.message);
    return null;
  }
}

export async function use(take) {
  const found = await made();
  if (found) take({ ...found.panel, made: true });
}

export async function download() {
  const found = await made();
  if (found) save("panel.yaml", "application/yaml", found.file);
}
