// One case as a file, made in this page from what it shows: nothing is asked and nothing is sent.

import { $, el, save } from "./dom.js";

const PARTS = ["result", "evidence-card", "origin"];
const CONTROLS = "button, input, select, form, [hidden], .prior, .took";

const nameOf = ({ panel, data }) => `simdx-${panel.id}-${(data.answer_id ?? "case").slice(0, 8)}`;

export function saveJson(shown) {
  const { text, data: { answer_id, answer } } = shown;
  save(`${nameOf(shown)}.json`, "application/json", JSON.stringify({ text, answer_id, answer }, null, 1));
}

export function saveHtml(shown) {
  const { panel } = shown, title = `simdx: ${panel.title}`;
  // Its own document: the browser's serialiser escapes every text in it.
  const page = document.implementation.createHTMLDocument(title);
  const style = [...document.styleSheets].flatMap((sheet) => [...sheet.cssRules].map((rule) => rule.cssText)).join("\n");
  page.documentElement.lang = "en";
  page.head.prepend(el("meta", { charset: "utf-8" }),
    el("meta", { "http-equiv": "Content-Security-Policy", content: "default-src 'none'; style-src 'unsafe-inline'" }));
  page.head.append(el("meta", { name: "viewport", content: "width=device-width, initial-scale=1" }));
  const copies = PARTS.map((id) => $(id).cloneNode(true));
  for (const copy of copies) {
    copy.querySelectorAll(CONTROLS).forEach((node) => node.remove());
    copy.querySelectorAll("[tabindex]").forEach((node) => node.removeAttribute("tabindex"));
    copy.querySelectorAll("details").forEach((node) => { node.open = true; });
  }
  page.body.append(el("main", {}, el("h1", {}, title), el("p", { class: "hint" }, panel.disclaimer), ...copies));
  // The style goes in as text: this page's own policy forbids it as an element.
  const html = page.documentElement.outerHTML.replace("</head>", () => `<style>${style}</style></head>`);
  save(`${nameOf(shown)}.html`, "text/html", `<!doctype html>\n${html}`);
}
