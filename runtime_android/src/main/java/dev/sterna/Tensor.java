package dev.sterna;

import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.DoubleBuffer;
import java.nio.FloatBuffer;
import java.nio.IntBuffer;
import java.nio.LongBuffer;
import java.nio.ShortBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import org.jetbrains.annotations.NotNull;
import org.jetbrains.annotations.Nullable;

/**
 * An input or output of a model: what it is, and the memory that holds it.
 *
 * <p>The memory is direct, dense and row-major. It belongs to the JVM and not to the model, so a view of it may be used after
 * the model is closed; kernels read and write it while the model runs. Any thread may call every method; one that needs the
 * model waits while another thread runs it.
 */
public final class Tensor {
  private static final int ALIGNMENT = 64;
  private static final int PART = 1 << 16; // bytes that are read from a stream at a time

  private final Model model;
  private final int kind;
  private final int index;
  private final String name;
  private final DType type;
  private final long[] dims;
  private final Quantization quantization;
  private final List<String> labels;
  private final ByteBuffer own;
  private ByteBuffer memory;
  private long bytes;

  /** Memory for the greatest sizes, which hold right after loading. */
  Tensor(Model model, long address, int kind, int index, List<?> texts) {
    this.model = model;
    this.kind = kind;
    this.index = index;
    long[] numbers = new long[3];
    Object[] facts = Natives.tensor(address, kind, index, numbers);
    name = Json.text((byte[]) facts[0]);
    dims = (long[]) facts[1];
    type = texts.contains(name) ? DType.STRING : DType.ofCode((int) numbers[0]);
    bytes = numbers[1];
    float[] scales = (float[]) facts[2];
    quantization = scales.length == 0 ? null : new Quantization(scales, (int[]) facts[3], (int) numbers[2]);
    String[] words = new String[facts.length - 4];
    for (int i = 0; i < words.length; i++) words[i] = Json.text((byte[]) facts[4 + i]);
    labels = Collections.unmodifiableList(Arrays.asList(words));
    own = aligned(bytes, "\"" + name + "\"");
    memory = own;
    Natives.bind(address, kind, index, own, 0);
  }

  /** Zeroed memory on a border of 64 bytes. */
  static ByteBuffer aligned(long bytes, String what) {
    if (bytes > Integer.MAX_VALUE - ALIGNMENT)
      throw SternaException.argument(what + " has " + bytes + " bytes; a ByteBuffer holds less than 2 GiB");
    ByteBuffer room = ByteBuffer.allocateDirect((int) bytes + ALIGNMENT);
    room.position(-Natives.misalignment(room, 0) & (ALIGNMENT - 1));
    room.limit(room.position() + (int) bytes);
    return room.slice();
  }

  /** All that follows in a stream, aligned. */
  static ByteBuffer aligned(InputStream in) throws IOException {
    List<byte[]> parts = new ArrayList<>(); // and not one array that grows: weights are there once, besides the result
    byte[] part = new byte[PART];
    int filled = 0;
    for (int n; (n = in.read(part, filled, PART - filled)) >= 0; ) {
      filled += n;
      if (filled < PART) continue;
      parts.add(part);
      part = new byte[PART];
      filled = 0;
    }
    ByteBuffer result = aligned((long) PART * parts.size() + filled, "a stream");
    for (byte[] full : parts) result.put(full);
    result.put(part, 0, filled).flip();
    return result;
  }

  /** The one of this name. */
  static Tensor named(List<Tensor> list, String name, String what) {
    List<String> names = new ArrayList<>();
    for (Tensor tensor : list) {
      if (tensor.name().equals(name)) return tensor;
      names.add(tensor.name());
    }
    throw SternaException.of(SternaException.NOT_FOUND, "no " + what + " is named \"" + name + "\"; there are " + names);
  }

  /** Takes over the sizes of the moment. The caller holds the model's lock. */
  void refresh(long address) {
    bytes = Natives.sizes(address, kind, index, dims);
  }

  /** What is wrong with the bound memory at these sizes; null if nothing is. */
  String tooSmall() {
    return bytes <= memory.remaining() ? null : message("has " + bytes + " bytes; the memory bound to it has " + memory.remaining());
  }

  private String message(String what) {
    return "\"" + name + "\" " + what;
  }

  /**
   * Returns the name.
   *
   * @return as in the model
   */
  public @NotNull String name() {
    return name;
  }

  /**
   * Returns the type of the elements.
   *
   * @return STRING for numbers that stand for strings
   */
  public @NotNull DType type() {
    return type;
  }

  /**
   * Returns the sizes of the dimensions, as a copy. Open ones are as they were set; those that the model computes are the most
   * that they may be before a run, and afterwards what they are.
   *
   * @return empty for a scalar
   */
  public @NotNull long[] shape() {
    synchronized (model.lock) {
      return dims.clone();
    }
  }

  /**
   * Returns how many elements there are, at the sizes of the moment.
   *
   * @return 1 for a scalar
   */
  public int elements() {
    synchronized (model.lock) {
      return (int) bytes / type.bytes;
    }
  }

  /**
   * Returns what the integers stand for.
   *
   * @return null where the model does not say
   */
  public @Nullable Quantization quantization() {
    return quantization;
  }

  /**
   * Returns what the elements of an output stand for, such as names of classes.
   *
   * @return empty where the model does not say; cannot be changed
   */
  public @NotNull List<String> labels() {
    return labels;
  }

  /**
   * The memory, as long as the tensor is at the sizes of the moment. Copies nothing; makes a small object, so keep the view
   * if every microsecond counts. After sizes have changed, or other memory is bound, ask again.
   *
   * @return of the machine's byte order
   */
  public @NotNull ByteBuffer buffer() {
    synchronized (model.lock) {
      ByteBuffer view = memory.duplicate();
      view.limit(view.position() + (int) Math.min(bytes, view.remaining()));
      return view.slice().order(ByteOrder.nativeOrder());
    }
  }

  /**
   * As {@link #buffer}, of 32-bit floats.
   *
   * @return a view: nothing is copied
   */
  public @NotNull FloatBuffer floats() {
    return of(DType.FLOAT32, DType.FLOAT32).asFloatBuffer();
  }

  /**
   * As {@link #buffer}, of 64-bit floats.
   *
   * @return a view: nothing is copied
   */
  public @NotNull DoubleBuffer doubles() {
    return of(DType.FLOAT64, DType.FLOAT64).asDoubleBuffer();
  }

  /**
   * As {@link #buffer}, of 32-bit integers.
   *
   * @return a view: nothing is copied
   */
  public @NotNull IntBuffer ints() {
    return of(DType.INT32, DType.UINT32).asIntBuffer();
  }

  /**
   * As {@link #buffer}, of 64-bit integers; of strings their numbers.
   *
   * @return a view: nothing is copied
   */
  public @NotNull LongBuffer longs() {
    return (type == DType.STRING ? buffer() : of(DType.INT64, DType.UINT64)).asLongBuffer();
  }

  /**
   * As {@link #buffer}, of elements of 16 bits, whatever they mean.
   *
   * @return a view: nothing is copied
   */
  public @NotNull ShortBuffer shorts() {
    if (type.bytes != 2) throw wrong("16 bits");
    return buffer().asShortBuffer();
  }

  private ByteBuffer of(DType one, DType other) {
    if (type != one && type != other) throw wrong(one.toString());
    return buffer();
  }

  private SternaException wrong(String wanted) {
    return SternaException.argument(message("is " + type + ", not " + wanted));
  }

  /**
   * Lets every following run read, or write, the caller's memory: from its position on, without a copy. It must be direct, aligned
   * to its elements, have room for the tensor, for one whose sizes the model computes at their greatest, and an output's may not
   * overlap any other tensor's. The model keeps it from being collected. What the buffer's byte order says is ignored: it is the
   * machine's.
   *
   * @param buffer null for the tensor's own memory
   */
  public void bind(@Nullable ByteBuffer buffer) {
    synchronized (model.lock) {
      long address = model.address();
      ByteBuffer next = buffer == null ? own : buffer.slice();
      if (!next.isDirect()) throw SternaException.argument(message("needs a direct buffer, which stays where it is"));
      if (kind == Natives.OUTPUT && next.isReadOnly()) throw SternaException.argument(message("is written to; the buffer is read-only"));
      long needed = model.hasComputedDims() && kind == Natives.OUTPUT ? own.capacity() : bytes;
      if (next.remaining() < needed)
        throw SternaException.argument(message("needs " + needed + " bytes; the buffer has " + next.remaining()));
      Natives.bind(address, kind, index, next, 0);
      memory = next;
    }
  }

  /**
   * Copies values into the memory, row by row.
   *
   * <p>Strings that the model does not know are remembered until a {@link Model#run(Map)} is given all inputs of strings.
   *
   * @param values an array of the type that {@link DType} names, or a buffer of such elements (or of bytes), whose position moves
   */
  public void set(@NotNull Object values) {
    synchronized (model.lock) {
      model.address(); // closed: what is written would never be read
      if (memory.isReadOnly()) throw SternaException.argument(message("is bound to a read-only buffer: write there"));
      Elements.copy(values, buffer(), type, name, model.strings());
    }
  }

  /**
   * Returns a copy of the values.
   *
   * @return an array of the type that {@link DType} names
   */
  public @NotNull Object get() {
    synchronized (model.lock) {
      return Elements.array(buffer(), type, model.strings());
    }
  }

  @Override
  public @NotNull String toString() {
    return name + ": " + type + Arrays.toString(shape());
  }
}
