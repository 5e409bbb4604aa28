/** Makes a page, a worker or a program of Node's a device that runs bundles for `sterna` elsewhere. docs/rpc.md says how. */
export { dial } from "./dial.js";
export { listen } from "./node.js";
