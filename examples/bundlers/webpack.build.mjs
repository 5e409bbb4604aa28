import { copyFile } from "node:fs/promises";
import webpack from "webpack";

const options = {
  mode: "production",
  entry: "./src/main.js",
  output: { path: `${import.meta.dirname ?? process.cwd()}/dist`, filename: "main.js", publicPath: "auto", module: true },
  experiments: { outputModule: true },
};
const stats = await new Promise((resolve, reject) => webpack(options, (problem, done) => (problem ? reject(problem) : resolve(done))));
if (stats.hasErrors()) throw new Error(stats.toString());
await copyFile("index.built.html", "dist/index.html");
