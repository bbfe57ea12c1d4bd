"""The review form as one HTML file: works offline, remembers as you type, saves itself and resumes.

Answers live in the page. Every change goes to the browser's local storage; "Save" downloads this same page
with the answers inside, so that opening the saved file, here or on another machine, goes on where it stopped.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape

from simdx.review.sheet import HIGHEST, LOWEST, SCALES


def form_page(
    review: str, reviewer: str, items: Sequence[dict[str, str | None]], choices: Sequence[str]
) -> str:
    setup = {
        "review": review,
        "reviewer": reviewer,
        "items": list(items),
        "choices": list(choices),
        "scales": SCALES,
        "low": LOWEST,
        "high": HIGHEST,
    }
    return _PAGE.replace("%TITLE%", escape(f"Review {review}, {reviewer}")).replace("%SETUP%", _json(setup))


def _json(value: object) -> str:
    """JSON that cannot end the script element it stands in."""
    text = json.dumps(value, ensure_ascii=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<title>%TITLE%</title>
<style>
:root{--ink:#1b1f24;--soft:#57606a;--paper:#fff;--line:#8c959f;--tint:#eef1f4;--lead:#0b62a8;--warm:#b35900}
@media (prefers-color-scheme:dark){:root{--ink:#e6edf3;--soft:#9aa5b1;--paper:#0f1419;--line:#6e7681;
--tint:#1c232b;--lead:#58a6ff;--warm:#f0a04b}}
body{margin:0;height:100vh;display:flex;flex-direction:column;
background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,sans-serif}
main{flex:1;overflow:auto;padding:1rem max(1.2rem,calc(50vw - 410px))}
article{border-top:1px solid var(--line);margin-top:1.6rem;padding-top:.6rem}
article.done h2::after{content:" ✓ scored";color:var(--lead);font-size:.9rem}
h2{font-size:1.1rem}blockquote{margin:.5rem 0;padding:.6rem 1rem;background:var(--tint);white-space:pre-wrap}
fieldset{border:1px solid var(--line);margin:.5rem 0}legend{font-weight:600}
label.score{display:inline-block;padding:.3rem .8rem}textarea{width:100%;min-height:3.5rem;
box-sizing:border-box;font:inherit;background:var(--paper);color:inherit;border:1px solid var(--line)}
select,button,input{font:inherit}button{padding:.4rem .9rem}
footer{background:var(--tint);border-top:1px solid var(--line);
padding:.5rem 1.2rem;display:flex;gap:.8rem;align-items:center;flex-wrap:wrap}
#state{flex:1;min-width:12rem}:focus-visible{outline:3px solid var(--lead)}
</style></head><body><main>
<h1>Blinded review</h1>
<p>Score every text from 1 (poor) to 5 (excellent) on both scales. A text under 4 on either scale is revised,
so please say in the feedback what is missing or wrong. Nothing you enter leaves this computer: press
<b>Save</b> to keep your work as a file, and send that file back.</p>
<div id="cases"></div></main>
<footer><span id="state" role="status"></span><button id="save">Save</button>
<label>Resume from a saved file <input type="file" id="load" accept=".html,.json"></label></footer>
<script type="application/json" id="setup">%SETUP%</script>
<script type="application/json" id="answers">{}</script>
<script>
"use strict";
const setup = JSON.parse(document.getElementById("setup").textContent);
const place = "simdx-review/" + setup.review + "/" + setup.reviewer;
const codes = new Set(setup.items.map(item => item.code));
let answers = {};

function merge(found) {  // per case the later answer wins; unknown codes are left out
  for (const [code, answer] of Object.entries(found || {})) {
    if (!codes.has(code) || !answer || typeof answer !== "object") continue;
    const own = answers[code];
    if (!own || (answer.at || 0) >= (own.at || 0)) answers[code] = answer;
  }
}
function remembered() {
  try { return JSON.parse(localStorage.getItem(place) || "{}"); } catch { return {}; }
}
function remember() {
  try {
    localStorage.setItem(place, JSON.stringify(answers));
  } catch { /* a private window may have no storage; saving the file still works */ }
  show();
}
function set(code, key, value) {
  answers[code] = {...answers[code], [key]: value, at: Date.now()};
  remember();
}
function element(tag, properties, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}
function scale(item, name, question) {
  const box = element("fieldset", {}, element("legend", {textContent: name + ": " + question}));
  for (let value = setup.low; value <= setup.high; value++) {
    const input = element("input", {type: "radio", name: item.code + "/" + name, value: String(value)});
    input.addEventListener("change", () => set(item.code, name, value));
    box.append(element("label", {className: "score"}, input, " " + value));
  }
  return box;
}
function card(item) {
  const made = element("article", {id: "case-" + item.code},
    element("h2", {textContent: "Case " + item.code + (item.label ? ": " + item.label : "")}),
    element("blockquote", {textContent: item.text}));
  for (const [name, question] of Object.entries(setup.scales)) made.append(scale(item, name, question));
  if (setup.choices.length) {
    const select = element("select", {name: item.code + "/diagnosis"});
    select.append(element("option", {value: ""}, "(no opinion)"));
    for (const choice of [...setup.choices, "none of these"])
      select.append(element("option", {value: choice}, choice));
    select.addEventListener("change", () => set(item.code, "diagnosis", select.value));
    made.append(element("p", {}, element("label", {}, "Diagnosis this text describes: ", select)));
  }
  const area = element("textarea", {name: item.code + "/feedback"});
  area.addEventListener("input", () => set(item.code, "feedback", area.value));
  made.append(element("label", {}, "Feedback", area));
  return made;
}
function show() {
  let done = 0;
  for (const item of setup.items) {
    const answer = answers[item.code] || {};
    const complete = Object.keys(setup.scales).every(name => answer[name]);
    done += complete;
    const article = document.getElementById("case-" + item.code);
    article.className = complete ? "done" : "";
    for (const name of Object.keys(setup.scales))
      for (const input of article.querySelectorAll(`input[name="${item.code}/${name}"]`))
        input.checked = String(answer[name]) === input.value;
    const area = article.querySelector("textarea");
    if (area.value !== (answer.feedback || "")) area.value = answer.feedback || "";
    const select = article.querySelector("select");
    if (select) select.value = answer.diagnosis || "";
  }
  document.getElementById("state").textContent = done + " of " + setup.items.length + " texts scored";
}
function safe(value) {
  return JSON.stringify(value).replace(/[&<>]/g, c => "\\\\u00" + c.charCodeAt(0).toString(16));
}
function save() {
  const copy = document.documentElement.cloneNode(true);
  copy.querySelector("#cases").replaceChildren();
  copy.querySelector("#answers").textContent = safe(answers);
  const blob = new Blob(["<!doctype html>\\n" + copy.outerHTML], {type: "text/html"});
  const link = element("a", {href: URL.createObjectURL(blob), download: "form-" + setup.reviewer + ".html"});
  link.click();
  URL.revokeObjectURL(link.href);
}
async function load(event) {
  const file = event.target.files[0];
  if (!file) return;
  try {
    const text = await file.text();
    const page = text.trimStart().startsWith("<") ? new DOMParser().parseFromString(text, "text/html") : null;
    if (page) {
      const theirs = JSON.parse(page.getElementById("setup").textContent);
      const same = theirs.review === setup.review && theirs.reviewer === setup.reviewer;
      if (!same) throw new Error("another form");
    }
    merge(JSON.parse(page ? page.getElementById("answers").textContent : text));
    remember();
  } catch {
    document.getElementById("state").textContent = "That file does not belong to this form.";
  }
}
document.getElementById("cases").append(...setup.items.map(card));
merge(JSON.parse(document.getElementById("answers").textContent));
merge(remembered());
document.getElementById("save").addEventListener("click", save);
document.getElementById("load").addEventListener("change", load);
show();
</script></body></html>
"""
