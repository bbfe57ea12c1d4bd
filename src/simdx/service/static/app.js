// Wiring: views by the address's fragment, the theme, and who listens to what.

import * as audit from "./auditview.js";
import { call } from "./api.js";
import * as batch from "./batch.js";
import { classify, resetPrior, sendFeedback, setPanel } from "./case.js";
import { $, el } from "./dom.js";

const panels = new Map();

function showAlert(message) {
  $("alert").textContent = message ?? "";
  $("alert").hidden = !message;
}

// What an answer is no substitute for depends on the panel of the view that is open.
function showDisclaimer() {
  const chosen = $("view-batch").hidden ? $("panel") : $("batch-panel");
  $("disclaimer").textContent = panels.get(chosen.value)?.disclaimer ?? "";
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
  showDisclaimer();
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
  $("panel").addEventListener("change", () => { setPanel(panels.get($("panel").value)); showDisclaimer(); });
  $("batch-panel").addEventListener("change", showDisclaimer);
  $("reset-prior").addEventListener("click", resetPrior);
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
    if (panels.has(wanted)) $("panel").value = wanted;
    setPanel(panels.get($("panel").value));
    showDisclaimer();
    document.documentElement.dataset.ready = "yes";
  } catch (error) {
    showAlert(error.message);
  }
}

start();
