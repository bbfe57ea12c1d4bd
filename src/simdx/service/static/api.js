// Talking to the service: JSON in, JSON out, problems as errors, a token where one is asked for.

const KEY = "simdx-token";

export class Refused extends Error {
  constructor(problem, status, retryAfter) {
    super(problem.detail || problem.title || `The service answered ${status}.`);
    this.kind = (problem.type || "").split(":").pop();
    this.status = status;
    this.retryAfter = retryAfter;
  }
}

let asking = null;

function askForToken() {
  // Several requests may be refused at once: one dialog serves them all.
  asking ??= new Promise((resolve) => {
    const dialog = document.getElementById("token-dialog");
    const field = document.getElementById("token");
    dialog.addEventListener("close", () => {
      if (field.value.trim()) sessionStorage.setItem(KEY, field.value.trim());
      field.value = "";
      asking = null;
      resolve();
    }, { once: true });
    dialog.showModal();
    field.focus();
  });
  return asking;
}

const pause = (seconds) => new Promise((resolve) => setTimeout(resolve, 1000 * seconds));

// A busy service says when to come back; every other refusal is for the reader.
export async function callPatiently(path, body, options) {
  for (let attempt = 0; ; attempt += 1) {
    try {
      return await call(path, body, options);
    } catch (error) {
      if (![429, 503].includes(error.status) || attempt === 5) throw error;
      await pause(error.retryAfter ?? 1);
    }
  }
}

export async function call(path, body, { signal } = {}) {
  for (let attempt = 0; ; attempt += 1) {
    const headers = {};
    const token = sessionStorage.getItem(KEY);
    if (token) headers.authorization = `Bearer ${token}`;
    if (body !== undefined) headers["content-type"] = "application/json";
    let response;
    try {
      response = await fetch(path, {
        method: body === undefined ? "GET" : "POST", headers, signal,
        body: body === undefined ? undefined : JSON.stringify(body),
      });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Refused({ detail: "The service does not answer: is it still running?" }, 0);
    }
    if (response.ok) return { data: await response.json(), answer: response.headers.get("simdx-answer") };
    const problem = await response.json().catch(() => ({}));
    if (response.status === 401 && attempt < 3) {
      sessionStorage.removeItem(KEY);
      await askForToken();
      continue;
    }
    throw new Refused(problem, response.status, Number(response.headers.get("retry-after")) || null);
  }
}
