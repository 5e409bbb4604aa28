/**
 * A module of Node's own, which bundlers must not look for.
 *
 * @param {string} name
 * @returns {Promise<any>}
 */
export function nodeModule(name) {
  const specifier = `node:${name}`;
  return import(/* @vite-ignore */ /* webpackIgnore: true */ specifier);
}
