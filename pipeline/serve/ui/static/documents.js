// An address that names a passage of another page of the document leads to that page.
import "./shell.js";

const passage = location.hash.slice(1); // ids of passages are never encoded
const asked = new URLSearchParams(location.search).get("at");
if (/^chunk-[\w-]+$/.test(passage) && !document.getElementById(passage) && asked !== passage) {
  location.replace(`?at=${passage}#${passage}`);
} else if (asked && !document.getElementById(passage)) {
  // A link of a chat client names the passage without #, and so does the address behind a login.
  document.getElementById(asked)?.scrollIntoView();
}
