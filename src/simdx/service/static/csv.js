// CSV as RFC 4180 has it: quoted fields may hold commas, quotes and line breaks.

const LONGEST_NAME = 100;  // characters; a first line above it that divides into no columns is prose

// Why a text is not taken for a CSV with a header; null where it may be one.
export function notCsv(text) {
  const head = text.replace(/^\uFEFF/, "").trimStart().split(/\r?\n/, 1)[0];
  if (/^(<|\{|\[|%PDF)/i.test(head)) return "The file is not CSV but looks like a web page, JSON or a document: save it as CSV.";
  if (!/[,;\t]/.test(head) && head.length > LONGEST_NAME) {
    return "The file is not CSV: its first line has no comma, semicolon or tab and is too long for the name of a column.";
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
