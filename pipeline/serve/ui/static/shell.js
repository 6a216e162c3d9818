// The frame: colours, workspaces, what is loaded. Views import what it exports.
import texts from "./texts.js";
import { ROOT, ask } from "./api.js";

export { texts };

// fill("{n} of {m}", {n: 1, m: 2}): as the templates' filter of that name.
export const fill = (text, values) => text.replace(/\{(\w+)\}/g, (_, name) => values[name]);

// An element with attributes (on...: listeners) and children; strings become text, never markup.
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

// What a custom property of the style comes to in the colours that hold now, as rgb(...).
export function colour(property) {
  const probe = element("span", { hidden: true });
  probe.style.color = `var(${property})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

// Calls back whenever light becomes dark or the other way round, until what it gives is called.
export function onColours(callback) {
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  scheme.addEventListener("change", callback);
  addEventListener("graphmill-theme", callback);
  return () => {
    scheme.removeEventListener("change", callback);
    removeEventListener("graphmill-theme", callback);
  };
}

// Who asks, what they may, what is loaded: pipeline/serve/ui/shell.py, state_of. Told once a page.
let asked;
export const state = () => (asked ??= ask("ui/state").catch(forget));

function forget(error) {
  asked = undefined; // to be asked again
  throw error;
}

function chooseColours() {
  const choice = document.getElementById("theme");
  if (!choice) return;
  choice.value = document.documentElement.dataset.theme ?? "auto";
  choice.addEventListener("change", () => {
    if (choice.value === "auto") {
      localStorage.removeItem("graphmill-theme");
      delete document.documentElement.dataset.theme;
    } else {
      localStorage.setItem("graphmill-theme", choice.value);
      document.documentElement.dataset.theme = choice.value;
    }
    dispatchEvent(new Event("graphmill-theme"));
  });
}

// Everything of a workspace is below w/NAME/; another one is gone to in the same view, whose own choices it does not know.
function chooseWorkspace() {
  const choice = document.getElementById("workspace");
  choice?.addEventListener("change", () => {
    const above = ROOT.href.replace(/w\/[a-z0-9_-]+\/$/, "");
    const view = document.querySelector("nav [aria-current]")?.getAttribute("href").replace(/^\.\.?\//, "") ?? "";
    location.assign(new URL(`w/${choice.value}/${view}`, above));
  });
}

// A menu closes by Escape, and when something else is turned to.
function closeMenus() {
  for (const menu of document.querySelectorAll("details.menu")) {
    const close = () => (menu.open = false);
    addEventListener("click", (event) => menu.contains(event.target) || close());
    menu.addEventListener("focusout", ({ relatedTarget }) => relatedTarget && !menu.contains(relatedTarget) && close());
    menu.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      close();
      menu.querySelector("summary").focus();
    });
  }
}

async function sayState() {
  const place = document.getElementById("state");
  if (!place || !document.querySelector("nav")) return;
  try {
    const { problem, command, loaded } = await state();
    if (loaded?.began) {
      const when = new Date(loaded.began).toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
      document.getElementById("loaded").textContent = fill(texts.shell.loaded, { workflow: loaded.workflow, when });
    }
    if (problem) {
      place.replaceChildren(element("p", { class: "notice warn" }, problem, command && element("code", { class: "command" }, command)));
    }
  } catch (error) {
    place.replaceChildren(element("p", { class: "notice bad" }, error.message));
  }
}

// What a browser keeps of questions (ask_earlier.js) and of a conversation (ask_kept.js) is gone with the session.
export const [KEPT, CONVERSATION] = ["graphmill-questions", "graphmill-conversation"];
document.querySelector('form[action$="logout"]')?.addEventListener("submit", () => {
  localStorage.removeItem(KEPT);
  sessionStorage.removeItem(CONVERSATION);
});

chooseColours();
chooseWorkspace();
closeMenus();
sayState();
