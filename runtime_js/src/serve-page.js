import { serve } from "./serve.js";

/** In a page: `serve` over a WebSocket to where the page came from. Its address says ?bundle=ADDRESS&threads=N. */
const asked = new URLSearchParams(location.search);
const socket = new WebSocket(new URL("/socket", location.href.replace(/^http/, "ws")));
socket.binaryType = "arraybuffer";
await new Promise((resolve) => (socket.onopen = resolve));
const take = await serve(asked.get("bundle") ?? "/bundle/", Number(asked.get("threads") ?? 1), (bytes) => socket.send(/** @type {BufferSource} */ (bytes)));
socket.onmessage = ({ data }) => take(new Uint8Array(data));
socket.onclose = () => close(); // whoever asked is gone, and the browser ends with its last page
