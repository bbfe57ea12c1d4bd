// CSV as RFC 4180 has it: quoted fields may hold commas, quotes and line breaks.

const MAX_BYTES = 50_000_000;
const LIKELY = ["text", "case", "description", "note", "input_text", "report"];  // names of a text column
const LONGEST_NAME = 100;  // characters; a first line above it that divides into no columns is prose

// The text of a file that the reader chose.
export async function textOf(file) {
  if (file.size > MAX_BYTES) throw new Error("The file is over 50 MB: use 'simdx evaluate' or the API for it.");
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
  } catch {
    throw new Error("The file is not UTF-8 text: save it as CSV UTF-8.");
  }
}

// Where the texts most probably are: a column with a likely name, else the longest.
export function textColumn(header, rows) {
  const named = header.findIndex((h) => LIKELY.includes(h.trim().toLowerCase()));
  const length = (k) => rows.slice(0, 50).reduce((sum, r) => sum + (r[k] ?? "").length, 0);
  return named >= 0 ? named : header.reduce((best, _, k) => (length(k) > length(best) ? k : best), 0);
}

// Why a text is not taken for a CSV with a header; null where it may be one.
export function notCsv(text) {
  const head = text.replace(/^\uFEFF/, "").trimStart().split(/\r?\n/, 1)[0];
  if (/^(<|\{|\[|%PDF)/i.test(head)) return "The file is not CSV but looks like a web page, JSON or a document: save it as CSV.";
  if (!/[,;\t]/.test(head) && head.length > LONGEST_NAME) {
    return "The file is not CSV: its first line has no comma, semicolon or tab and is too long for a column name.";
  }
  return null;
}

export function parse(text) {
  const rows = [];
  let row = [], field = "", quoted = false;
  const source = text.replace(/^\uFEFF/, "");
  const head = source.split(/\r?\n/, 1)[0];
  const comma = [",", ";", "\t"].reduce((a, b) => (head.split(b).length > head.split(a).length ? b : a));
  for (let i = 0; i < source.length; i += 1) {
    const c = source[i];
    if (quoted) {
      if (c === '"' && source[i + 1] === '"') { field += '"'; i += 1; }
      else if (c === '"') quoted = false;
      else field += c;
    } else if (c === '"' && field === "") quoted = true;
    else if (c === comma) { row.push(field); field = ""; }
    else if (c === "\n" || c === "\r") {
      if (c === "\r" && source[i + 1] === "\n") i += 1;
      row.push(field);
      rows.push(row);
      row = [];
      field = "";
    } else field += c;
  }
  if (quoted) throw new Error("The file ends inside a quoted field: a closing quote is missing.");
  if (field !== "" || row.length) { row.push(field); rows.push(row); }
  return rows.filter((r) => r.some((f) => f.trim() !== ""));
}

// A cell that begins like a formula would run in a spreadsheet: a quote in front makes it text.
const cell = (value) => {
  let text = value === null || value === undefined ? "" : String(value);
  if (typeof value === "string" && /^[=+\-@\t\r]/.test(text)) text = `'${text}`;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};

export const format = (rows) => rows.map((r) => r.map(cell).join(",")).join("\r\n") + "\r\n";
