// Words and names marked in a text, which stays text.
import { element } from "./shell.js";

const SYLLABIC = /[\u3040-\u9fff]/; // scripts whose words nothing parts

// Parts for an element: the text with the names in it marked.
export function marked(text, names) {
  const wanted = [...new Set(names.filter((name) => name.length > 1))].sort((a, b) => b.length - a.length);
  if (!wanted.length) return [text];
  const pattern = wanted.map((word) => (SYLLABIC.test(word) ? "" : "(?<![\\p{L}\\p{N}])") + word.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&")).join("|");
  const found = new RegExp(pattern, "giu");
  const parts = [];
  let from = 0;
  for (const match of text.matchAll(found)) {
    parts.push(text.slice(from, match.index), element("mark", {}, match[0]));
    from = match.index + match[0].length;
  }
  return [...parts, text.slice(from)];
}

// The text with one line for each paragraph, heading, item of a list, row of a table or line of code.
const BLOCK = /^(?:\s*(?:#{1,6} |[-*+•] |\d{1,3}[.)] |\||>|```|~~~)| {4}|\t)/;
export function withLines(text) {
  const lines = [];
  let goesOn = false;
  for (const line of text.split("\n")) {
    const isBlock = BLOCK.test(line);
    const flat = line.replace(/\s+/g, " ").trim();
    if (!flat) goesOn = false;
    else if (isBlock || !goesOn) lines.push([isBlock ? line.trimEnd() : flat]);
    else lines.at(-1).push(flat);
    if (flat) goesOn = !isBlock;
  }
  return lines.map((parts) => parts.join(" ")).join("\n");
}

// About so many characters of a text, where most of the words stand together, the rare ones before the frequent; on one
// line, unless the lines are kept.
export function excerpt(text, wanted, length, keepsLines = false) {
  const flat = keepsLines ? text : text.replace(/\s+/g, " ").trim();
  if (flat.length <= length) return flat;
  const lower = flat.toLowerCase();
  const places = new Map(wanted.map((word) => [word, [...positions(lower, word.toLowerCase())]]));
  let [best, most] = [0, 0];
  for (const from of [...places.values()].flat().sort((a, b) => a - b)) {
    let worth = 0;
    for (const found of places.values()) {
      if (found.some((at) => at >= from && at < from + length * 0.7)) worth += 1 / found.length;
    }
    if (worth > most) [best, most] = [from, worth];
  }
  const sentence = lower.lastIndexOf(". ", best);
  const near = sentence > best - length / 3 ? sentence + 2 : flat.indexOf(" ", best - 40) + 1;
  const begin = best < 60 ? 0 : Math.min(near, best);
  const end = begin + length < flat.length ? flat.lastIndexOf(" ", begin + length) : flat.length;
  return `${begin ? "… " : ""}${flat.slice(begin, end > begin ? end : begin + length)}${end < flat.length ? " …" : ""}`;
}

function* positions(text, word) {
  for (let at = text.indexOf(word); at >= 0; at = text.indexOf(word, at + word.length)) yield at;
}

// The words of a question that are worth marking.
export const wordsOf = (question) => question.split(/[^\p{L}\p{N}]+/u).filter((word) => word.length > 3 || SYLLABIC.test(word));
