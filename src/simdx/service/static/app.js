// Wiring: views by the address's fragment, the theme, and who listens to what.

import * as audit from "./auditview.js";
import { call } from "./api.js";
import * as batch from "./batch.js";
import { checkOutdated, classify, orderRows, resetPrior, restore, sendFeedback, setPanel, shown, takeLastPrior } from "./case.js";
import { $, el, tell } from "./dom.js";
import * as dozen from "./dozen.js";
import { saveHtml, saveJson } from "./export.js";
import * as history from "./history.js";
import * as library from "./library.js";

const panels = new Map();
const VIEWS = ["batch", "new", "dozen", "audit"];
const SERVED = ["batch-panel", "dozen-panel"];  // choices of the service's own panels alone
let current = null;

const showAlert = (message) => tell("alert", message);

// One panel for the whole page, whichever view chose it.
function choosePanel(id) {
  current = id;
  const panel = panels.get(id);
  $("panel").value = id;
  if (!panel.made) for (const select of SERVED) $(select).value = id;
  setPanel(panel);
  batch.forgetResults();
  dozen.forget();
  $("disclaimer").textContent = panel.disclaimer;
}

// A panel that was made of the library: the last one alone, as there is one name for all of them.
function takeMade(panel) {
  panels.set(panel.id, panel);
  $("panel").querySelector("[data-made]")?.remove();
  $("panel").append(el("option", { value: panel.id, "data-made": true }, panel.title));
  choosePanel(panel.id);
  location.hash = "#case";
  route();  // now, so that the field can take the focus
  $("text").focus();
}

function takeUp(asked) {
  if (asked.panel.made && panels.get(asked.panel.id) !== asked.panel) takeMade(asked.panel);
  else if (asked.panel.id !== current) choosePanel(asked.panel.id);
  restore(asked);
}

function route() {
  const fragment = location.hash.slice(1);
  const chosen = fragment.startsWith("answer=") ? fragment.slice(7) : null;
  const view = chosen ? "audit" : VIEWS.includes(fragment) ? fragment : "case";
  for (const section of document.querySelectorAll("[data-section]")) section.hidden = section.dataset.section !== view;
  for (const link of document.querySelectorAll("[data-view]")) {
    if (link.dataset.view === view) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (view === "audit") audit.load({ chosen });
}

function theme() {
  const root = document.documentElement;
  const kept = localStorage.getItem("simdx-theme");
  if (kept) root.dataset.theme = kept;
  $("theme").addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    localStorage.setItem("simdx-theme", root.dataset.theme);
  });
}

function listen() {
  const on = (event, listeners) => {
    for (const [id, listener] of Object.entries(listeners)) $(id).addEventListener(event, listener);
  };
  on("submit", { "case-form": (event) => classify(event, showAlert), "feedback-form": sendFeedback, "batch-form": batch.run,
    "library-form": library.find, "dozen-form": (event) => dozen.start(event, panels.get($("dozen-panel").value)) });
  on("input", { text: checkOutdated, "library-query": library.search });
  on("change", { method: checkOutdated, "batch-file": batch.readFile, "batch-action": batch.showRows, "batch-label": batch.showRows,
    "audit-kind": () => audit.load() });
  on("change", Object.fromEntries(["panel", ...SERVED].map((id) => [id, () => choosePanel($(id).value)])));
  on("click", { "reset-prior": resetPrior, "last-prior": takeLastPrior, "history-clear": history.clear,
    "save-html": () => saveHtml(shown()), "save-json": () => saveJson(shown()),
    "batch-stop": batch.stop, "batch-download": batch.download,
    "library-use": () => library.use(takeMade), "library-download": library.download,
    "dozen-undo": dozen.undo, "dozen-skip": dozen.skip, "dozen-save": dozen.download,
    "audit-verify": audit.verify, "audit-refresh": () => audit.load(), "audit-more": () => audit.load({ older: true }) });
  $("text").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) classify(event, showAlert);
  });
  // Once the hand has left, the rows fall into the order of what it made.
  $("labels").addEventListener("focusout", (event) => { if (!$("labels").contains(event.relatedTarget)) setTimeout(orderRows); });
  addEventListener("hashchange", () => { route(); if (!document.activeElement?.closest("main")) $("main").focus(); });
  history.onRestore(takeUp);
}

async function start() {
  theme();
  listen();
  route();
  try {
    const { data } = await call("/v1/panels");
    for (const panel of data.panels) panels.set(panel.id, panel);
    for (const id of ["panel", ...SERVED]) {
      $(id).replaceChildren(...data.panels.map((p) => el("option", { value: p.id }, p.title)));
    }
    const wanted = new URLSearchParams(location.search).get("panel");
    choosePanel(panels.has(wanted) ? wanted : $("panel").value);
    document.documentElement.dataset.ready = "yes";
  } catch (error) {
    showAlert(error.message);
  }
}

start();
