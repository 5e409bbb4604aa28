/** Runs models that were compiled by Sterna. README.md shows how. */
export { Model } from "./model.js";
export { SternaError } from "./errors.js";
