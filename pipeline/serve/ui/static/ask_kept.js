// The conversation of this window: there again after a look at a document or the graph, until someone signs out (shell.js).
import { ROOT } from "./api.js";
import { CONVERSATION, state } from "./shell.js";

const whose = async () => `${ROOT.pathname} ${(await state()).who}`;

// As many of the last turns as the browser has room for.
export async function keep(turns) {
  try {
    const owner = await whose();
    const told = turns.map(({ question, text, annotations, found, done, bare, stopped, error }) => ({ question, text, annotations, found, done: bare ? null : done, bare, stopped, error }));
    for (let from = 0; from <= told.length; from++) {
      if (put({ owner, turns: told.slice(from) })) return;
    }
  } catch {} // the server is gone, and with it who asks
}

function put(kept) {
  try {
    sessionStorage.setItem(CONVERSATION, JSON.stringify(kept));
    return true;
  } catch {
    return false;
  }
}

// What was kept by whoever asks now, of this workspace; another's is gone.
export async function kept() {
  try {
    const { owner, turns } = JSON.parse(sessionStorage.getItem(CONVERSATION) ?? "{}");
    if (owner === (await whose())) return turns.map((turn) => ({ ...turn, done: turn.bare ? turn.found : turn.done }));
    sessionStorage.removeItem(CONVERSATION);
  } catch {}
  return [];
}
