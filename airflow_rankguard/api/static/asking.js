// Asks the API, and turns what it answers into values and problems.

import { API } from "./host.js";

const PATIENCE = 30_000;

/** An answer that is no success: `code` for the page, the message for people. */
export class Problem extends Error {
  constructor({ status = 0, code, title, detail, ...more }) {
    super(detail || title);
    Object.assign(this, { status, code, title, more });
  }
}

export const read = (path, params, signal) => ask(path, params, { signal });

export const change = (path, body) =>
  ask(path, {}, {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-Rankguard-Request": "1" },
    body: JSON.stringify(body),
  });

async function ask(path, params, { signal, ...options }) {
  const address = new URL(path, API);
  for (const [name, value] of Object.entries(params)) {
    if (value !== undefined && value !== null) address.searchParams.set(name, value);
  }
  const patience = AbortSignal.timeout(PATIENCE);
  const signals = signal ? AbortSignal.any([signal, patience]) : patience;
  let response;
  try {
    response = await fetch(address, { ...options, signal: signals, credentials: "same-origin" });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Problem({ code: "no-answer", title: "No answer", detail: "Airflow's API server does not answer." });
  }
  const body = await bodyOf(response);
  if (!response.ok) throw new Problem({ status: response.status, title: response.statusText, ...asProblem(body) });
  return { status: response.status, ...body };
}

async function bodyOf(response) {
  try {
    return await response.json();
  } catch {
    return {};
  }
}

/** Airflow's own answers, such as the one without a login, carry only a `detail`, which may be no text. */
function asProblem(body) {
  return typeof body.detail === "string" ? body : { ...body, detail: undefined };
}
