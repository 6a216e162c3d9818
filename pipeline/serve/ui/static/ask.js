// The view Ask: a conversation, each answer as it comes, and beside it what it rests on.
import { ask } from "./api.js";
import { remember, showEarlier } from "./ask_earlier.js";
import { citation, showEvidence } from "./ask_evidence.js";
import { offerFields, options, prepare } from "./ask_form.js";
import { keep, kept } from "./ask_kept.js";
import { rendered } from "./markdown.js";
import { excerpt, marked, wordsOf, withLines } from "./marks.js";
import { element, fill, state, texts } from "./shell.js";
import { events } from "./stream.js";

const words = texts.ask;
const REMEMBERED = 10; // turns of a conversation that go with a question
const [PASSAGES, EXCERPT, FACTS] = [5, 420, 8]; // shown where no model answers, and characters of a passage
const at = (id) => document.getElementById(id);
const turns = []; // {question, place, text, annotations, found, done, running}

const isRunning = () => turns.some((turn) => turn.running);
const say = (what) => (at("said").textContent = what); // to screen readers

function placed(turn) {
  turn.place = element("article", { class: "turn", "aria-label": turn.question, tabindex: -1 });
  turns.push(turn);
  at("turns").append(turn.place);
  return turn;
}

async function put(question, instead = null) {
  if (!question || isRunning()) return;
  const history = instead ? turns.slice(0, turns.indexOf(instead)) : turns;
  const body = { ...options(), query: question, ...conversation(history) };
  if (instead) {
    for (const gone of turns.splice(turns.indexOf(instead))) gone.place.remove();
  }
  const turn = placed({ question, text: "", annotations: [], found: null, done: null, running: new AbortController() });
  if (turns.length > 1) draw(turns.at(-2)); // it is not the last any more
  remember(question);
  showForm();
  turn.place.scrollIntoView({ block: "start", behavior: "smooth" });
  if (document.activeElement !== at("question")) turn.place.focus({ preventScroll: true });
  await run(turn, body);
  turn.running = null;
  await draw(turn);
  showForm();
  say(turn.error ?? (turn.stopped ? words.stopped : fill(words.answered, { n: turn.found?.references?.length ?? 0 })));
  if (document.activeElement === document.body) turn.place.focus({ preventScroll: true }); // what had it is gone
  await keep(turns);
}

async function run(turn, body) {
  draw(turn);
  say(words.searching);
  try {
    if (!(await state()).chat && !body.model) {
      turn.done = await ask("query/data", body, { signal: turn.running.signal });
      turn.found = turn.done;
      turn.bare = true;
    } else {
      for await (const [name, told] of events("query/stream?include=evidence", body, turn.running.signal)) {
        if (name === "sources") turn.found = told;
        if (name === "sources") say(words.writing);
        if (name === "token") turn.text += told.text;
        if (name === "token") turn.annotations.push(...told.annotations);
        if (name === "done") Object.assign(turn, { done: told, text: told.answer, annotations: told.annotations, found: { ...turn.found, ...withEvidence(told) } });
        if (name === "token") drawSoon(turn);
        else draw(turn);
        if (name !== "token") showEvidence(turn);
      }
    }
  } catch (error) {
    if (error.name === "AbortError") turn.stopped = true;
    else turn.error = error.message;
  }
  offerFields(turn.found?.chunks ?? []);
  showEvidence(turn);
}

// Of what the last event tells, what the search found: modes that go on searching tell it again.
function withEvidence(told) {
  return Object.fromEntries(["references", "chunks", "entities", "relationships"].filter((name) => told[name]).map((name) => [name, told[name]]));
}

function conversation(history) {
  const said = history.filter((turn) => turn.text && !turn.error).slice(-REMEMBERED);
  const turnsSaid = said.flatMap(({ question, text }) => [{ role: "user", content: question }, { role: "assistant", content: text }]);
  return turnsSaid.length ? { conversation_history: turnsSaid } : {};
}

function drawSoon(turn) {
  turn.waiting ??= setTimeout(() => {
    turn.waiting = null;
    draw(turn);
  }, 60);
}

async function draw(turn) {
  const drawn = (turn.drawn = (turn.drawn ?? 0) + 1);
  const references = new Map((turn.found?.references ?? []).map((entry) => [entry.id, entry]));
  const asked = wordsOf(turn.question);
  const cite = ({ number, supported = true }) => references.has(number) && citation(references.get(number), asked, supported);
  const annotations = turn.annotations ?? [];
  const answer = turn.bare ? bare(turn, cite) : turn.text ? await rendered(turn.text, annotations, cite).catch(() => [turn.text]) : [];
  const unsupported = annotations.filter(({ supported }) => !supported).length;
  if (drawn !== turn.drawn) return; // a newer drawing is under way
  const working = turn.running && !turn.text;
  turn.place.setAttribute("aria-busy", String(Boolean(turn.running)));
  turn.place.replaceChildren(...[
    element("h2", { class: "asked" }, turn.question),
    turn.done?.cites_nothing && element("p", { class: "notice warn", "data-note": "cites-nothing" }, words.cites_nothing),
    element("div", { class: `answer${turn.running && turn.text ? " writing" : ""}` }, answer),
    working && element("p", { class: "pale" }, turn.found ? words.writing : words.searching),
    !turn.running && unsupported > 0 && element("p", { class: "quiet", "data-note": "unsupported" }, fill(words.unsupported, { n: unsupported })),
    turn.stopped && element("p", { class: "pale" }, words.stopped),
    turn.error && element("p", { class: "notice bad" }, turn.error),
    !turn.running && under(turn),
    !turn.running && turn === turns.at(-1) && next(turn),
  ].filter(Boolean));
}

// Without a chat model: the passages and the facts themselves.
function bare({ question, found, done }, cite) {
  if (!found) return [];
  const asked = wordsOf(question);
  const passages = found.references.slice(0, PASSAGES).map((reference) => {
    const chunk = found.chunks.find(({ id }) => id === reference.chunk_id);
    return chunk && element("div", { class: "found" }, element("b", {}, reference.title || reference.source), " ", cite({ number: reference.id }),
      element("p", { class: "text" }, marked(excerpt(withLines(chunk.content), asked, EXCERPT, true), asked)));
  });
  const numbers = new Map(found.references.map(({ chunk_id, id }) => [chunk_id, id]));
  const facts = found.relationships.filter((link) => link.description).slice(0, FACTS).map((link) => {
    const number = link.text_unit_ids.map((unit) => numbers.get(unit)).find(Boolean);
    return element("li", {}, element("b", {}, `${link.source} – ${link.target}`), `: ${excerpt(link.description, asked, EXCERPT / 2)} `, number && cite({ number }));
  });
  if (!passages.length) return [element("p", { class: "notice warn" }, done?.abstained ? words.abstained : words.nothing)];
  const best = found.most_likely;
  const likely = best && element("p", { class: "likely" }, element("b", {}, words.most_likely), " ", ...marked(best.text, asked), " ", cite({ number: best.number }));
  return [element("p", { class: "notice info" }, words.no_chat), ...(likely ? [likely] : []), ...passages.filter(Boolean), ...(facts.length ? [element("h3", {}, words.evidence_facts), element("ul", {}, facts)] : [])];
}

function under(turn) {
  const told = element("span", { class: "quiet", role: "status" });
  return element("div", { class: "row under" },
    element("button", { type: "button", "data-do": "again", onclick: () => put(turn.question, turn) }, words.again),
    (turn.text || turn.bare) && element("button", { type: "button", "data-do": "copy", onclick: () => copy(turn, told) }, words.copy),
    turn !== turns.at(-1) && element("button", { type: "button", "data-do": "evidence", onclick: () => showEvidence(turn) }, words.evidence),
    told);
}

async function copy(turn, told) {
  const listed = sourcesOf(turn).join("\n");
  const parts = turn.bare
    ? [turn.question, turn.place.querySelector(".answer").innerText]
    : [turn.question, turn.done?.cites_nothing && words.cites_nothing, turn.text];
  try {
    await navigator.clipboard.writeText([...parts, listed && `${words.sources}\n${listed}`].filter(Boolean).join("\n\n"));
    told.textContent = words.copied;
  } catch {
    told.textContent = words.copy_failed;
  }
}

// A title with a number in brackets, as text that looks like no other source.
const inert = (text) => text.replace(/\[([^[\]]*\d[^[\]]*)\]/g, "($1)");

// A line for each passage that the answer cites; without a model, for each that was found.
function sourcesOf(turn) {
  const annotations = turn.annotations ?? [];
  const references = turn.found?.references ?? [];
  const cited = new Set(turn.done?.cited ?? annotations.map(({ number }) => number));
  const unsupported = new Set(annotations.filter(({ supported }) => !supported).map(({ number }) => number));
  return references.filter(({ id }) => turn.bare || cited.has(id)).map(({ id, title, source, page }) => {
    const place = `${source}${page ? `, ${fill(words.page, { n: page })}` : ""}`;
    const line = `[${id}] ${inert(title || source)} (${inert(place)})${unsupported.has(id) ? ` - ${words.unsupported_source}` : ""}`;
    return line.replace(/\s+/g, " "); // a title cannot look like another source
  });
}

// What could be asked next, of what was found: no model is asked for it.
function next({ question, found }) {
  if (!found?.entities?.length) return null;
  const asked = question.toLowerCase();
  const isNew = (name) => !asked.includes(name.toLowerCase()) && name.length < 60;
  const about = found.entities.filter(({ name }) => isNew(name)).slice(0, 2).map(({ name }) => fill(words.next_entity, { name }));
  const links = found.relationships.filter(({ source, target }) => isNew(source) && isNew(target)).slice(0, 2).map(({ source, target }) => fill(words.next_link, { source, target }));
  const offered = [...about, ...links].slice(0, 3);
  if (!offered.length) return null;
  return element("div", { class: "next" }, element("span", { class: "quiet" }, words.next),
    offered.map((said) => element("button", { type: "button", "data-do": "next", onclick: () => put(said) }, said)));
}

function showForm() {
  const running = isRunning();
  at("welcome").hidden = at("earlier").hidden = turns.length > 0;
  at("stop").hidden = !running;
  at("send").hidden = running;
  at("new").hidden = running || !turns.length;
  at("send").textContent = turns.length ? words.follow_up : words.ask;
}

function begin() {
  prepare();
  const submit = () => {
    const question = at("question").value.trim();
    if (!question || isRunning()) return at("question").focus();
    at("question").value = "";
    put(question);
  };
  at("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    submit();
  });
  at("question").addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    submit();
  });
  at("stop").addEventListener("click", () => turns.forEach((turn) => turn.running?.abort()));
  at("new").addEventListener("click", () => {
    turns.splice(0).forEach((turn) => turn.place.remove());
    keep(turns);
    showEvidence({});
    showEarlier(put);
    showForm();
    at("question").focus();
  });
  at("close-passage").addEventListener("click", () => at("passage").close());
  at("passage").addEventListener("click", (event) => event.target === at("passage") && at("passage").close());
  showEarlier(put);
  showForm();
  at("question").focus();
}

async function goOn() {
  const before = await kept();
  if (turns.length || !before.length) return;
  for (const turn of before) placed(turn);
  showForm();
  showEvidence(turns.at(-1));
  await Promise.all(turns.map(draw));
  turns.at(-1).place.scrollIntoView({ block: "start" });
}

begin();
goOn();
