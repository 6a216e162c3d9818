// A model's answer as elements: Markdown of text alone. Markup, links and images in it show as they are written, so that
// nothing is loaded and nothing leads elsewhere, whatever a document has made a model say.
import { element } from "./shell.js";
import { marked, purifier } from "./vendor.js";

const TAGS = ["p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "blockquote", "pre", "code", "em",
  "strong", "del", "table", "thead", "tbody", "tr", "th", "td"]; // prettier-ignore
const CITED = /\[(\d{1,9})\]/g;

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
  parser.use({
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

// cite(number): the element for a citation, or null where nothing has that number.
export async function rendered(text, cite) {
  const { parser, purify } = await ready();
  const safe = purify.sanitize(parser.parse(text), { ALLOWED_TAGS: TAGS, ALLOWED_ATTR: ["start"], ALLOW_DATA_ATTR: false, ALLOW_ARIA_ATTR: false, RETURN_DOM_FRAGMENT: true });
  const made = element("div");
  made.append(safe);
  const walker = document.createTreeWalker(made, NodeFilter.SHOW_TEXT);
  const found = [];
  while (walker.nextNode()) {
    if (!walker.currentNode.parentElement.closest("code, pre") && walker.currentNode.data.includes("[")) found.push(walker.currentNode);
  }
  for (const node of found) node.replaceWith(...withCitations(node.data, cite));
  return [...made.childNodes];
}

function withCitations(text, cite) {
  const parts = [];
  let from = 0;
  for (const match of text.matchAll(CITED)) {
    const button = cite(Number(match[1]));
    if (!button) continue;
    parts.push(text.slice(from, match.index), button);
    from = match.index + match[0].length;
  }
  return [...parts, text.slice(from)].filter((part) => part !== "");
}
