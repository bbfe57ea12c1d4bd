// Making elements without markup strings: text is always text, never HTML.

const SVG = "http://www.w3.org/2000/svg";

export const $ = (id) => document.getElementById(id);

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.filter((c) => c !== null && c !== undefined));
  return node;
}

export const el = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
export const svg = (tag, attributes = {}, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

// A message at its place; without one the place is hidden.
export function tell(id, message) {
  $(id).textContent = message ?? "";
  $(id).hidden = !message;
}

// What an answer says of itself, such as thresholds that promise no rate of errors.
export function showNotes(list, notes) {
  list.replaceChildren(...notes.map((n) => el("li", {}, `Note: ${n}.`)));
  list.hidden = notes.length === 0;
}

// A file for the reader, made in this page.
export function save(name, type, content) {
  const url = URL.createObjectURL(new Blob([content], { type }));
  el("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

// Rounding never shows a certainty.
export const percent = (p, digits = 1) => {
  const shown = (100 * p).toFixed(digits), step = 10 ** -digits;
  if (p < 1 && Number(shown) === 100) return `over ${(100 - step).toFixed(digits)} %`;
  if (p > 0 && Number(shown) === 0) return `under ${step.toFixed(digits)} %`;
  return `${shown} %`;
};
export const bits = (b) => `${b.toFixed(2)} bits`;
export const short = (text, limit) => {
  const flat = text.replace(/\s+/g, " ").trim();
  return flat.length <= limit ? flat : `${flat.slice(0, limit - 1)}…`;
};
