// An address that names a passage of another page of the document leads to that page.
import "./shell.js";

const passage = decodeURIComponent(location.hash.slice(1));
const asked = new URLSearchParams(location.search).get("at");
if (passage.startsWith("chunk-") && !document.getElementById(passage) && asked !== passage) {
  location.replace(`?at=${encodeURIComponent(passage)}#${encodeURIComponent(passage)}`);
}
