package dev.sterna;

import org.jetbrains.annotations.NotNull;

/** How a model is loaded. Belongs to the thread that fills it in; {@code load} keeps no reference to it. */
public final class Options {
  int threads = 1;
  boolean onlyCpu;

  /** What holds if nothing is said: one thread, the caller's. */
  public Options() {}

  /**
   * Lets several threads share every kernel.
   *
   * @param threads counts the caller: 1 makes no thread
   * @return this
   */
  public @NotNull Options threads(int threads) {
    this.threads = threads;
    return this;
  }

  /**
   * Lets a model that has kernels for a GPU run on the CPU, too: for comparing, or where the GPU is wanted for something else.
   *
   * @return this
   */
  public @NotNull Options onlyCpu() {
    onlyCpu = true;
    return this;
  }
}
