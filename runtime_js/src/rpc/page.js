import { dial } from "./dial.js";

/** The page of `sterna rpc serve --web`: this browser is a device. The token, where there is one, follows # in its address. */
const said = /** @type {HTMLElement} */ (document.getElementById("said"));
const say = (/** @type {string} */ text) => (said.textContent = text);
const count = (/** @type {number} */ clients) => say(clients ? `${clients} connected` : "waiting for models to run");
count(0);
const { ended } = dial(new URL("/socket", location.href.replace(/^http/, "ws")), { token: decodeURIComponent(location.hash.slice(1)) || undefined, onChange: count });
await ended;
say("the server has ended; load this page again when it is back");
close(); // a browser without a window ends with its last page
