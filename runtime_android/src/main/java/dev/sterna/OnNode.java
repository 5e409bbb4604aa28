package dev.sterna;

import org.jetbrains.annotations.NotNull;

/** Is told of every node while a model runs: {@link Model#onNode}. */
public interface OnNode {
  /**
   * A node is done. Called on the thread that runs the model, between two nodes; what it throws comes out of {@code run}. It may
   * ask the model for information and call {@link Model#onNode}, and neither run, change nor close the model.
   *
   * @param node its number, from 0 in the order of execution
   * @param name its name
   * @param nanoseconds how long it took
   */
  void onNode(int node, @NotNull String name, long nanoseconds);
}
