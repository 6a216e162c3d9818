// An address that names a passage of another page of the document leads to that page.
import "./shell.js";

const passage = location.hash.slice(1); // ids of passages are never encoded
const asked = new URLSearchParams(location.search).get("at");
if (/^chunk-[\w-]+$/.test(passage) && !document.getElementById(passage) && asked !== passage) {
  location.replace(`?at=${passage}#${passage}`);
}
