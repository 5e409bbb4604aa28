package dev.sterna;

import java.nio.Buffer;
import java.nio.BufferOverflowException;
import java.nio.ByteBuffer;
import java.nio.DoubleBuffer;
import java.nio.FloatBuffer;
import java.nio.IntBuffer;
import java.nio.LongBuffer;
import java.nio.ShortBuffer;

/** Arrays and buffers to and from the memory of tensors, a block at a time. */
final class Elements {
  private Elements() {}

  /** Copies all of `values`, which must be as many as fit. */
  static void copy(Object values, ByteBuffer to, DType type, String name, Strings strings) {
    boolean fits;
    try {
      fits = values instanceof Buffer ? fromBuffer((Buffer) values, to, type) : fromArray(values, to, type, strings);
    } catch (BufferOverflowException tooMany) {
      throw SternaException.argument("\"" + name + "\" has " + to.limit() / type.bytes + " elements; more were given");
    }
    if (!fits)
      throw SternaException.argument("\"" + name + "\" is " + type + "; " + kind(values) + " was given");
    if (to.hasRemaining())
      throw SternaException.argument(
          "\"" + name + "\" has " + to.limit() / type.bytes + " elements; only " + to.position() / type.bytes + " were given");
  }

  private static String kind(Object values) {
    return values == null ? "null" : "a " + values.getClass().getSimpleName();
  }

  private static boolean isInteger(DType type, int bytes) {
    return type.bytes == bytes && type != DType.FLOAT32 && type != DType.FLOAT64 && type != DType.STRING;
  }

  /** Moves the positions of both buffers. */
  private static boolean fromBuffer(Buffer values, ByteBuffer to, DType type) {
    int before = values.remaining();
    if (values instanceof ByteBuffer) {
      to.put((ByteBuffer) values);
      return true;
    }
    if (values instanceof FloatBuffer && type == DType.FLOAT32) to.asFloatBuffer().put((FloatBuffer) values);
    else if (values instanceof IntBuffer && isInteger(type, 4)) to.asIntBuffer().put((IntBuffer) values);
    else if (values instanceof LongBuffer && isInteger(type, 8)) to.asLongBuffer().put((LongBuffer) values);
    else if (values instanceof ShortBuffer && type.bytes == 2) to.asShortBuffer().put((ShortBuffer) values);
    else if (values instanceof DoubleBuffer && type == DType.FLOAT64) to.asDoubleBuffer().put((DoubleBuffer) values);
    else return false;
    to.position(to.position() + before * type.bytes);
    return true;
  }

  private static boolean fromArray(Object values, ByteBuffer to, DType type, Strings strings) {
    if (values instanceof String[] && type == DType.STRING) {
      for (String word : (String[]) values) to.putLong(strings.number(word));
      return true;
    }
    if (values instanceof byte[]) return type.bytes == 1 && fromBuffer(ByteBuffer.wrap((byte[]) values), to, type);
    Buffer same = null;
    if (values instanceof float[]) same = FloatBuffer.wrap((float[]) values);
    else if (values instanceof int[]) same = IntBuffer.wrap((int[]) values);
    else if (values instanceof long[]) same = LongBuffer.wrap((long[]) values);
    else if (values instanceof short[]) same = ShortBuffer.wrap((short[]) values);
    else if (values instanceof double[]) same = DoubleBuffer.wrap((double[]) values);
    return same != null && fromBuffer(same, to, type);
  }

  static Object array(ByteBuffer from, DType type, Strings strings) {
    int n = from.remaining() / type.bytes;
    if (type == DType.STRING) {
      String[] values = new String[n];
      for (int i = 0; i < n; i++) values[i] = strings.word(from.getLong());
      return values;
    }
    if (type == DType.FLOAT32) {
      float[] values = new float[n];
      from.asFloatBuffer().get(values);
      return values;
    }
    if (type == DType.FLOAT64) {
      double[] values = new double[n];
      from.asDoubleBuffer().get(values);
      return values;
    }
    if (type.bytes == 1) {
      byte[] values = new byte[n];
      from.get(values);
      return values;
    }
    if (type.bytes == 2) {
      short[] values = new short[n];
      from.asShortBuffer().get(values);
      return values;
    }
    if (type.bytes == 4) {
      int[] values = new int[n];
      from.asIntBuffer().get(values);
      return values;
    }
    long[] values = new long[n];
    from.asLongBuffer().get(values);
    return values;
  }
}
