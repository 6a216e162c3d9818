// A run under way is followed: how far it is every two seconds, and the page anew when it has ended. Editors begin one.
import { ROOT, ask } from "./api.js";
import { fill, texts } from "./shell.js";

const EVERY = 2000;
const words = texts.runs;
const going = document.getElementById("going");

function howFar({ step, position, steps }) {
  if (!step) return words.going_before;
  const place = steps ? fill(words.going_place, { position, steps }) : "";
  return fill(words.going, { step }) + place;
}

function show(far) {
  const where = document.getElementById("where");
  const share = document.getElementById("share");
  if (where.textContent !== howFar(far)) where.textContent = howFar(far); // said aloud, so once a step
  if (far.expected) Object.assign(share, { max: far.expected, value: far.done });
  else share.removeAttribute("value");
  share.title = far.expected ? `${far.done.toLocaleString("en")} / ${far.expected.toLocaleString("en")}` : "";
  document.getElementById("count").textContent = share.title;
}

async function follow(run) {
  for (;;) {
    await new Promise((resolve) => setTimeout(resolve, EVERY));
    if (document.hidden) continue;
    try {
      const far = await ask(`ui/runs/${run}`);
      if (!far) break;
      show(far);
    } catch (error) {
      document.getElementById("where").textContent = error.message;
    }
  }
  document.getElementById("where").textContent = words.going_over;
  location.reload();
}

// The command says within seconds that its run has begun, or why it has not.
async function begin(form) {
  const [button, said] = [form.querySelector("button"), form.querySelector("[role=status]")];
  const { path, workflow } = form.dataset;
  const most = form.elements.max_cost?.value;
  button.disabled = true;
  Object.assign(said, { textContent: words.beginning, className: "quiet" });
  try {
    const { run } = await ask(path, { ...(workflow && { workflow }), max_cost: most ? Number(most) : null });
    location.assign(new URL(run ? `runs/${run}` : "runs", ROOT));
  } catch (error) {
    Object.assign(said, { textContent: error.message, className: "bad" });
    button.disabled = false;
  }
}

document.getElementById("begin")?.addEventListener("submit", (event) => {
  event.preventDefault();
  begin(event.target);
});

// A plan reads all documents, which the page that it is asked from says until it is there.
const planning = document.getElementById("planning");
document.getElementById("plan")?.addEventListener("click", () => (planning.textContent = words.next_reading));
addEventListener("pageshow", ({ persisted }) => persisted && planning && (planning.textContent = words.next_reads));

if (going) follow(going.dataset.run);
