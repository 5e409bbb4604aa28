/** The method of models that gives what other modules of the runtime look at. */
export const internals = Symbol();
