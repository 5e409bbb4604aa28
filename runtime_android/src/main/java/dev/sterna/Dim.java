package dev.sterna;

import org.jetbrains.annotations.NotNull;

/** A dimension that was left open when the model was compiled, as it was when it was asked for. */
public final class Dim {
  /** Its name in the model. */
  public final @NotNull String name;

  /** The least size. */
  public final long lo;

  /** The greatest size. */
  public final long hi;

  /** The size now; the greatest, after loading. */
  public final long size;

  /** Whether the model itself decides the size while it runs. */
  public final boolean computed;

  Dim(String name, long[] facts) {
    this.name = name;
    lo = facts[0];
    hi = facts[1];
    size = facts[2];
    computed = facts[3] != 0;
  }

  @Override
  public @NotNull String toString() {
    return name + " = " + size + " (" + lo + " to " + hi + (computed ? ", computed)" : ")");
  }
}
