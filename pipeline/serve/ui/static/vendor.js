// Libraries that are not ours: scripts that set a global, loaded when they are first needed.
import { fill, texts } from "./shell.js";

const loading = new Map();

export class NotLoaded extends Error {}

function load(file, name) {
  if (!loading.has(file)) {
    loading.set(
      file,
      new Promise((resolve, reject) => {
        const script = document.createElement("script");
        script.src = new URL(`vendor/${file}`, import.meta.url);
        script.addEventListener("load", () => resolve(globalThis[name]));
        script.addEventListener("error", () => {
          loading.delete(file); // to be tried again
          reject(new NotLoaded(fill(texts.failures.no_library, { file })));
        });
        document.head.append(script);
      }),
    );
  }
  return loading.get(file);
}

export const marked = () => load("marked.umd.js", "marked");
export const purifier = () => load("purify.min.js", "DOMPurify");
export const sigma = () => load("sigma.min.js", "Sigma");
export const graphology = () => load("graphology.umd.min.js", "graphology");
