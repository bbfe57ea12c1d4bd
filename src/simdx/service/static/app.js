// Wiring: views by the address's fragment, the theme, and who listens to what.

import * as audit from "./auditview.js";
import { call } from "./api.js";
import * as batch from "./batch.js";
import { checkOutdated, classify, orderRows, resetPrior, sendFeedback, setPanel, takeLastPrior } from "./case.js";
import { $, el } from "./dom.js";

const panels = new Map();

function showAlert(message) {
  $("alert").textContent = message ?? "";
  $("alert").hidden = !message;
}

// One panel for the whole page, whichever view chose it.
function choosePanel(id) {
  $("panel").value = $("batch-panel").value = id;
  setPanel(panels.get(id));
  batch.forgetResults();
  $("disclaimer").textContent = panels.get(id).disclaimer;
}

function route() {
  const fragment = location.hash.slice(1);
  const chosen = fragment.startsWith("answer=") ? fragment.slice(7) : null;
  const view = chosen ? "audit" : ["batch", "audit"].includes(fragment) ? fragment : "case";
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

async function start() {
  theme();
  $("case-form").addEventListener("submit", (event) => classify(event, showAlert));
  $("text").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) classify(event, showAlert);
  });
  $("text").addEventListener("input", checkOutdated);
  $("method").addEventListener("change", checkOutdated);
  for (const id of ["panel", "batch-panel"]) $(id).addEventListener("change", () => choosePanel($(id).value));
  $("reset-prior").addEventListener("click", resetPrior);
  // Once the hand has left, the rows fall into the order of what it made.
  $("labels").addEventListener("focusout", (event) => { if (!$("labels").contains(event.relatedTarget)) setTimeout(orderRows); });
  $("last-prior").addEventListener("click", takeLastPrior);
  $("feedback-form").addEventListener("submit", sendFeedback);
  $("batch-file").addEventListener("change", batch.readFile);
  $("batch-form").addEventListener("submit", batch.run);
  $("batch-stop").addEventListener("click", batch.stop);
  $("audit-verify").addEventListener("click", audit.verify);
  $("audit-refresh").addEventListener("click", () => audit.load());
  $("audit-kind").addEventListener("change", () => audit.load());
  $("audit-more").addEventListener("click", () => audit.load({ older: true }));
  addEventListener("hashchange", () => { route(); $("main").focus(); });
  route();
  try {
    const { data } = await call("/v1/panels");
    for (const panel of data.panels) panels.set(panel.id, panel);
    for (const id of ["panel", "batch-panel"]) {
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
