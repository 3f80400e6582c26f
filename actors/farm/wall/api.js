// The page's side of the HTTP interface (docs/farm.md). The session is a cookie that no script can read.

import { t } from "./words.js";

/** What the farm, or the way to it, refused. `status` is 0 where nothing answered. */
export class ApiError extends Error {
  constructor(message, status, problems = []) {
    super(message);
    this.status = status;
    this.problems = problems;
  }

  /** The farm has no such thing: it is older, or it was not configured. */
  get isMissing() {
    return this.status === 404 || this.status === 405;
  }
}

let ticket = null;
let onLoggedOut = () => {};

/** Show this ticket instead of a cookie: a page inside another site's has none. */
export function useTicket(text) {
  ticket = text;
}

/** Called when the session is over. */
export function whenLoggedOut(call) {
  onLoggedOut = call;
}

/** A path whose parts are data: `path("phones", id)`. */
export const path = (...parts) => `/api/v1/${parts.map(encodeURIComponent).join("/")}`;

async function ask(method, address, { body, query, signal } = {}) {
  const url = new URL(address, location.origin);
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value !== null && value !== undefined && value !== "") url.searchParams.set(name, value);
  }
  const headers = body === undefined ? {} : { "content-type": "application/json" };
  if (ticket !== null) headers.authorization = `Bearer ${ticket}`;
  let response;
  try {
    const text = body === undefined ? undefined : JSON.stringify(body);
    response = await fetch(url, { method, headers, body: text, signal, credentials: "same-origin" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(t("unreachable"), 0);
  }
  if (response.ok) return response;
  const answer = await response.json().catch(() => ({}));
  if (response.status === 401 && !address.endsWith("/session")) onLoggedOut();
  const problems = Array.isArray(answer.problems) ? answer.problems.map(String) : [];
  throw new ApiError(String(answer.error ?? t("answered", { status: response.status })), response.status, problems);
}

const json = async (...request) => (await ask(...request)).json();

export const get = (address, query, signal) => json("GET", address, { query, signal });
export const post = (address, body = {}) => json("POST", address, { body });
export const remove = (address) => json("DELETE", address);
/** The answer's own bytes, and its headers. */
export const raw = (method, address, options) => ask(method, address, options);

export const session = () => get("/api/v1/session");
export const logIn = (token) => post("/api/v1/session", { token });
export const logOut = () => remove("/api/v1/session");
/** A new ticket; in a page that came with one, that one. */
export const newTicket = async () => ticket ?? (await post("/api/v1/tickets", { seconds: 300 })).ticket;

/** What a GET answers, or null where the farm offers no such thing. */
export async function offered(address, query) {
  try {
    return await get(address, query);
  } catch (error) {
    if (error.isMissing) return null;
    throw error;
  }
}

/** Save bytes as a file of this name. */
export function download(blob, name) {
  const url = URL.createObjectURL(blob);
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
