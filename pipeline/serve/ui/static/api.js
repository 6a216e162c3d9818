// Requests to this server, and what a failure means. Addresses are relative to the page's root, wherever that is.

export const ROOT = new URL("../../", import.meta.url);

export class Failure extends Error {
  constructor(status, type, message, fields = []) {
    super(message);
    Object.assign(this, { status, type, fields });
  }
}

// The answer's JSON. Throws Failure; a session that has ended leads to the login, and back.
export async function ask(path, body = undefined, options = {}) {
  return (await send(path, body, options)).json();
}

// The response itself, for what streams. With a body it is a POST of JSON.
export async function send(path, body = undefined, options = {}) {
  const post = body === undefined ? {} : { method: "POST", body: JSON.stringify(body) };
  const headers = { Accept: "application/json", ...(body === undefined ? {} : { "Content-Type": "application/json" }) };
  let response;
  try {
    response = await fetch(new URL(path, ROOT), { headers, ...post, ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Failure(0, "lost", (await words()).lost);
  }
  if (response.ok) return response;
  const told = await response.json().catch(() => ({}));
  const { type = "failed", message = response.statusText, fields = [] } = told.error ?? {};
  if (response.status === 401) logIn();
  throw new Failure(response.status, type, message, fields);
}

// To the login, and back to where one is.
function logIn() {
  const here = location.href.slice(ROOT.href.length).split("#")[0];
  location.assign(new URL(`login?next=${encodeURIComponent(here)}`, ROOT));
}

const words = async () => (await import("./texts.js")).default.shell;
