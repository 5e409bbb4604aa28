package dev.sterna;

import org.jetbrains.annotations.NotNull;

/** What the integers of a tensor stand for: q for {@code scale * (q - zeroPoint)}. */
public final class Quantization {
  private final float[] scales;
  private final int[] zeroPoints;

  /** The axis along which scales and zero points differ; 0 where there is one of each. */
  public final int axis;

  Quantization(float[] scales, int[] zeroPoints, int axis) {
    this.scales = scales;
    this.zeroPoints = zeroPoints;
    this.axis = axis;
  }

  /**
   * Returns the scales, as a copy.
   *
   * @return one for the whole tensor, or one for every index along the axis
   */
  public @NotNull float[] scales() {
    return scales.clone();
  }

  /**
   * Returns the zero points, as a copy.
   *
   * @return as many as scales
   */
  public @NotNull int[] zeroPoints() {
    return zeroPoints.clone();
  }

  /**
   * The number that an integer stands for, where there is one scale.
   *
   * @param q the integer; of an unsigned type its value, not its bits
   * @return {@code scale * (q - zeroPoint)}
   */
  public float real(int q) {
    return scales[0] * (q - zeroPoints[0]);
  }

  /**
   * The integer nearest to a number, where there is one scale; ties go to the even one.
   *
   * @param x the number
   * @return not cut to what the tensor's type holds, but to what {@code int} does
   */
  public int quantized(float x) {
    return (int) (Math.rint(x / scales[0]) + zeroPoints[0]); // the sum of doubles is exact, or beyond what int holds
  }
}
