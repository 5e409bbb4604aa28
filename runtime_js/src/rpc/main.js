#!/usr/bin/env node
import { nodeModule } from "../node.js";
import { listen } from "./node.js";

/** sterna-rpc [PORT] [HOST]: this program is a device. The token is in the environment, as STERNA_RPC_TOKEN. */
const { argv, env, stdout } = await nodeModule("process");
const { port } = await listen({ port: Number(argv[2] ?? 9190), host: argv[3], token: env.STERNA_RPC_TOKEN });
stdout.write(`rpc://${argv[3] ?? "127.0.0.1"}:${port}\n`);
