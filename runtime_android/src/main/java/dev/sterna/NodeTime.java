package dev.sterna;

import org.jetbrains.annotations.NotNull;

/** A node of the model, and how long it takes. */
public final class NodeTime {
  /** The node's name. */
  public final @NotNull String name;

  /** The kernel that computes it. */
  public final @NotNull String kernel;

  /** How many parts threads can share. */
  public final int tasks;

  /** Mean time of one run. */
  public final long nanoseconds;

  NodeTime(String name, String kernel, int tasks, long nanoseconds) {
    this.name = name;
    this.kernel = kernel;
    this.tasks = tasks;
    this.nanoseconds = nanoseconds;
  }

  @Override
  public @NotNull String toString() {
    return name + " (" + kernel + "): " + nanoseconds + " ns";
  }
}
