// Cases of this browser session, with their last answers: in memory alone, gone with the page.

import { outcomeWords } from "./answers.js";
import { $, el, short } from "./dom.js";

const MOST = 50;
let cases = [];  // the latest first
let take = () => {};

export function onRestore(restore) {
  take = restore;
}

export function add(asked) {
  const same = (other) => other.panel === asked.panel && other.text === asked.text && other.method === asked.method;
  const at = cases.findIndex(same);
  if (at >= 0) cases[at] = asked;  // the same case under another prior keeps its place
  else cases = [asked, ...cases].slice(0, MOST);
  draw();
}

export function clear() {
  cases = [];
  draw();
}

function draw() {
  $("history").hidden = cases.length === 0;
  $("history-count").textContent = String(cases.length);
  $("history-list").replaceChildren(...cases.map((asked) => el("li", {},
    el("button", { type: "button", class: "quiet", onclick: () => take(asked) }, short(asked.text, 60)),
    el("span", { class: "hint" }, outcomeWords(asked.data.answer)))));
}
