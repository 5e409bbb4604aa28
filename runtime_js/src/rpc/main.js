#!/usr/bin/env node
import { nodeModule } from "../node.js";
import { listen } from "./node.js";

const USAGE = `sterna-rpc [PORT] [HOST]
This program is a device: it runs bundles for browsers that clients send. PORT is 9190, or 0 for any; HOST is this machine
alone, or 0.0.0.0 for others, who need a token: STERNA_RPC_TOKEN, or the file that STERNA_RPC_TOKEN_FILE names.
`;
const { argv, env, exit, stderr, stdout } = await nodeModule("process");

/**
 * Ends the program in the form of all errors (docs/errors.md).
 *
 * @param {"E0002" | "E0010"} code
 * @param {string} what
 * @param {string} fix
 * @returns {any} never
 */
function refuse(code, what, fix) {
  stderr.write(`error[${code}]: ${what}\n  fix: ${fix}\n`);
  return exit(code === "E0002" ? 2 : 1);
}

/** The token, as the server in C finds it. */
async function findToken() {
  const { STERNA_RPC_TOKEN: given, STERNA_RPC_TOKEN_FILE: file } = env;
  if (given || !file) return given ? new TextEncoder().encode(given) : undefined;
  const { readFile, stat } = await nodeModule("fs/promises");
  try {
    if ((await stat(file)).mode & 0o077) refuse("E0002", `${file}: other users may read or write it`, "chmod 600");
    return await readFile(file);
  } catch (problem) {
    return refuse("E0010", String(/** @type {any} */ (problem).message), "STERNA_RPC_TOKEN_FILE names a file with the token");
  }
}

/** @param {Uint8Array | undefined} token without white space at its end */
function trimmed(token) {
  let size = token?.length ?? 0;
  while (size > 0 && [9, 10, 13, 32].includes(/** @type {Uint8Array} */ (token)[size - 1])) size--;
  return token?.subarray(0, size);
}

const [text = "9190", host = "127.0.0.1", ...others] = argv.slice(2);
if (text === "--help" || text === "-h") {
  stdout.write(USAGE);
} else {
  const port = /^\d{1,5}$/.test(text) ? Number(text) : 65536;
  if (port > 65535 || others.length > 0) refuse("E0002", `"${[text, ...others].join(" ")}" is no port, or too much`, "sterna-rpc [PORT] [HOST]");
  try {
    const running = await listen({ port, host, token: trimmed(await findToken()) });
    stdout.write(`rpc://${host.includes(":") ? `[${host}]` : host}:${running.port}\n`);
  } catch (problem) {
    const { code, message } = /** @type {any} */ (problem);
    if (problem instanceof RangeError) refuse("E0002", message, "set STERNA_RPC_TOKEN to a token such as that of: openssl rand -hex 16");
    refuse("E0010", message, code === "EADDRINUSE" ? "port 0 takes any that is free" : "HOST is an address of this machine; 0.0.0.0 is all of them");
  }
}
