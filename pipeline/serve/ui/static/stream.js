// Server-sent events of a POST: [name, data] as they come. Throws Failure for an event "error" and for a stream that
// breaks off.
import { Failure, send } from "./api.js";
import { texts } from "./shell.js";

export async function* events(path, body, signal) {
  const response = await send(path, body, { signal });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  let done = false;
  try {
    while (!done) {
      const { value, done: ended } = await reader.read();
      done = ended;
      held += value ?? "";
      const frames = held.split("\n\n");
      held = frames.pop();
      for (const frame of frames) {
        const [name, data] = ["event: ", "data: "].map((start) => frame.split("\n").find((line) => line.startsWith(start))?.slice(start.length));
        if (!name || data === undefined) continue; // a comment that keeps the connection open
        const told = JSON.parse(data);
        if (name === "error") throw new Failure(200, told.type, told.message, told.fields);
        yield [name, told];
        if (name === "done") return;
      }
    }
  } catch (error) {
    if (error instanceof Failure || error.name === "AbortError") throw error;
    throw new Failure(0, "lost", texts.shell.lost);
  } finally {
    reader.cancel().catch(() => {});
  }
  throw new Failure(0, "lost", texts.shell.lost);
}
