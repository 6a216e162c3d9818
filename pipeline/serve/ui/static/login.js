// Who follows a link from another site comes without the cookie (SameSite), and so to this page. A request of this page
// brings it along: if there is a session already, on to where the link leads.
const root = new URL("../../", import.meta.url);
const next = document.getElementById("login").dataset.next;

const { signed_in } = await (await fetch(new URL("session", root))).json();
if (signed_in) location.replace(new URL(next, root));
