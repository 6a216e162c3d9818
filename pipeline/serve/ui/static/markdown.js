// A model's answer as elements: Markdown of text alone. Markup, links and images in it show as they are written, so that
// nothing is loaded and nothing leads elsewhere, whatever a document has made a model say.
import { element } from "./shell.js";
import { marked, purifier } from "./vendor.js";

const TAGS = ["p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "blockquote", "pre", "code", "em",
  "strong", "del", "table", "thead", "tbody", "tr", "th", "td"]; // prettier-ignore
const [OPENING, CLOSING] = ["\u2e28", "\u2e29"]; // rare brackets, which Markdown reads as it reads [ and ]

let tools = null;

async function ready() {
  if (!tools) {
    const [parser, purify] = await Promise.all([marked(), purifier()]);
    tools = { parser: plain(parser), purify };
  }
  return tools;
}

const escaped = (text) => text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);

function plain(library) {
  const parser = new library.Marked({ gfm: true });
  const { url } = library.Tokenizer.prototype;
  parser.use({
    tokenizer: {
      // An address ends where a citation begins.
      url(source) {
        return url.call(this, source.split(OPENING, 1)[0]);
      },
    },
    renderer: {
      html: ({ text }) => escaped(text),
      link({ href, tokens, text }) {
        return text === href ? escaped(href) : `${this.parser.parseInline(tokens)} (${escaped(href)})`;
      },
      image: ({ href, text }) => escaped(`![${text}](${href})`),
    },
  });
  return parser;
}

// The answer, with an element for each of its annotations and for nothing else, whatever its text looks like.
// cite(annotation): the element, or null where no reference has its number.
export async function rendered(text, annotations, cite) {
  const { parser, purify } = await ready();
  const code = newCode();
  const places = inOrder(annotations);
  const safe = purify.sanitize(parser.parse(withCodes(text, places, code)), { ALLOWED_TAGS: TAGS, ALLOWED_ATTR: ["start"], ALLOW_DATA_ATTR: false, ALLOW_ARIA_ATTR: false, RETURN_DOM_FRAGMENT: true });
  const made = element("div");
  made.append(safe);
  const walker = document.createTreeWalker(made, NodeFilter.SHOW_TEXT);
  const found = [];
  while (walker.nextNode()) {
    if (walker.currentNode.data.includes(OPENING)) found.push(walker.currentNode);
  }
  for (const node of found) node.replaceWith(...withCitations(node.data, places, code, cite));
  return [...made.childNodes];
}

// Digits that no text can hold, because they are drawn anew for each drawing of an answer.
const newCode = () => [...crypto.getRandomValues(new Uint32Array(3))].map((number) => String(number).padStart(10, "0")).join("");

const inOrder = (annotations) => [...annotations].sort((one, other) => one.start - other.start);

// The text with the code of an annotation in its place. Annotations count Unicode code points, as Array.from does; a
// string's own places are those of UTF-16, in which an emoji has two.
function withCodes(text, places, code) {
  const characters = Array.from(text);
  const parts = [];
  let from = 0;
  for (const [index, { start, end }] of places.entries()) {
    if (start < from || end <= start || end > characters.length) continue;
    parts.push(characters.slice(from, start).join(""), OPENING, code, String(index), CLOSING);
    from = end;
  }
  return [...parts, characters.slice(from).join("")].join("");
}

function withCitations(text, places, code, cite) {
  const coded = new RegExp(`${OPENING}${code}(\\d+)${CLOSING}`, "g");
  const parts = [];
  let from = 0;
  for (const match of text.matchAll(coded)) {
    const annotation = places[Number(match[1])];
    parts.push(text.slice(from, match.index), cite(annotation) || `[${annotation.number}]`);
    from = match.index + match[0].length;
  }
  return [...parts, text.slice(from)].filter((part) => part !== "");
}
