// The audit view: the log, latest first, and whether its hash chain is intact.

import { call } from "./api.js";
import { $, el, percent } from "./dom.js";

const state = { before: null, chosen: null };

export async function load({ older = false, chosen = null } = {}) {
  if (!older) { state.before = null; $("audit-rows").replaceChildren(); state.chosen = chosen; }
  const query = new URLSearchParams({ limit: "50" });
  if (state.before) query.set("before", state.before);
  if ($("audit-kind").value) query.set("kind", $("audit-kind").value);
  try {
    if (chosen) { showOne((await call(`/v1/answers/${encodeURIComponent(chosen)}`)).data.record); return; }
    const { data } = await call(`/v1/audit?${query}`);
    $("audit-rows").append(...data.records.map(line));
    state.before = data.records.at(-1)?.seq ?? null;
    $("audit-more").hidden = data.records.length < 50;
    $("audit-said").className = "hint";
    $("audit-said").textContent = `${data.count} records. Latest hash: ${data.head.slice(0, 16)}…`;
  } catch (error) {
    $("audit-said").className = "bad";
    $("audit-said").textContent = error.message;
  }
}

// A card's link leads here: one answer, which the token it was given to may read. The log needs the scope admin.
function showOne(record) {
  $("audit-rows").append(line(record));
  $("audit-more").hidden = true;
  $("audit-said").className = "hint";
  $("audit-said").textContent = "One answer, as it is in the log.";
}

function line(record) {
  const answer = record.answer ?? {};
  const p = answer.posterior?.[answer.label];
  const said = !record.answer ? beside(record) : record.kind === "cds-feedback" ? answer.outcome
    : (answer.label ?? "none of these") + (p === undefined ? "" : `, ${percent(p, 0)}`);
  const action = answer.decision?.action;
  return el("tr", { class: record.id === state.chosen ? "chosen" : null },
    el("td", { class: "num" }, String(record.seq)), el("td", { class: "num" }, record.at.replace("T", " ").replace("Z", "")),
    el("td", {}, record.kind), el("td", {}, record.caller), el("td", {}, record.panel), el("td", {}, said),
    el("td", {}, action ? el("span", { class: "pill", "data-action": action }, action) : answer.agrees === undefined ? "" : answer.agrees ? "agrees" : "differs"),
    el("td", { class: "mono", title: record.hash }, record.hash.slice(0, 12)));
}

function beside({ kind, context }) {  // a record that is no answer
  if (kind === "refused") return `${context.count} × ${context.reason} from ${context.address}`;
  return { read: context?.read, key: "another key", cds: "no card" }[kind] ?? "";
}

export async function verify() {
  const said = $("audit-said");
  said.className = "hint";
  said.textContent = "Verifying the log…";
  try {
    const { data } = await call("/v1/audit/verify");
    said.className = data.ok ? "good" : "bad";
    said.textContent = data.ok ? `The log is intact: ${data.records} records.` : `The log is damaged: ${data.problem}.`;
  } catch (error) {
    said.className = "bad";
    said.textContent = error.message;
  }
}
