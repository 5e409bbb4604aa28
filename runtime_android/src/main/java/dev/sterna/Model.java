package dev.sterna;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jetbrains.annotations.NotNull;
import org.jetbrains.annotations.Nullable;

/**
 * A model that {@code sterna compile} made.
 *
 * <pre>{@code
 * try (Model model = Model.load(Path.of("mobilenet"))) {
 *   model.input("image").floats().put(pixels);
 *   model.run();
 *   FloatBuffer scores = model.output("scores").floats();
 * }
 * }</pre>
 *
 * <p>Any thread may call every method. A model does one thing at a time: a call waits until another thread's is done,
 * {@link #close} too. Different models are independent. What cannot be done is a {@link SternaException}; after
 * {@link #close} that holds for everything but {@link #close}, the lists of inputs and outputs, and what they hold.
 */
public final class Model implements AutoCloseable {
  private static final String CPU = "cpu";

  final Object lock = new Object();
  private final Handle handle;
  private final String name;
  private final Strings strings;
  private final List<Tensor> inputs;
  private final List<Tensor> outputs;
  private final String[] nodes;
  private final boolean computes;
  private final String backend;
  private String reason = "";
  private boolean running;
  private OnNode listener;

  private Model(long address, @Nullable Strings strings, @Nullable Object keepsAlive, String backend) {
    this.strings = strings;
    this.backend = backend;
    name = Json.text(Natives.name(address));
    handle = new Handle(this, address, name, keepsAlive);
    boolean good = false;
    try {
      inputs = tensors(Natives.INPUT, strings == null ? Collections.emptyList() : strings.inputs);
      outputs = tensors(Natives.OUTPUT, strings == null ? Collections.emptyList() : strings.outputs);
      nodes = new String[Natives.nodeCount(address)];
      boolean some = false;
      for (Dim dim : dims()) some |= dim.computed;
      computes = some;
      good = true;
    } finally {
      if (!good)
        synchronized (lock) { // nobody else has this model, but the collector may find it before this is done
          handle.unload();
        }
    }
  }

  private List<Tensor> tensors(int kind, List<?> texts) {
    List<Tensor> list = new ArrayList<>();
    int count = Natives.count(handle.address, kind);
    for (int i = 0; i < count; i++) list.add(new Tensor(this, handle.address, kind, i, texts));
    return Collections.unmodifiableList(list);
  }

  /**
   * Loads the bundle in a directory. Weights are mapped, not copied; kernels are opened as a library.
   *
   * @param directory as {@code sterna compile} wrote it
   * @return to be closed
   */
  public static @NotNull Model load(@NotNull Path directory) {
    return load(directory.toFile(), new Options());
  }

  /**
   * As {@link #load(Path)}.
   *
   * @param directory as {@code sterna compile} wrote it
   * @param options how
   * @return to be closed
   */
  public static @NotNull Model load(@NotNull Path directory, @NotNull Options options) {
    return load(directory.toFile(), options);
  }

  /**
   * As {@link #load(Path)}, for Android before version 8, which has no paths.
   *
   * @param directory as {@code sterna compile} wrote it
   * @param options how
   * @return to be closed
   */
  public static @NotNull Model load(@NotNull File directory, @NotNull Options options) {
    byte[] place = Natives.path(directory.getPath());
    byte[] text = bytes(directory, "graph.json", SternaException.UNREADABLE);
    Strings strings = null;
    if (Json.text(text).contains("\"" + Strings.FILE + "\"")) { // every bundle passes here: most graphs are not parsed
      Map<?, ?> graph = Json.object("graph.json", ByteBuffer.wrap(text));
      if (Strings.in(graph)) {
        byte[] table = bytes(directory, Strings.FILE, SternaException.DAMAGED);
        ByteBuffer memory = Tensor.aligned(table.length, Strings.FILE);
        memory.put(table).flip();
        strings = Strings.of(graph, memory);
      }
    }
    return new Model(Natives.load(place, options.threads), strings, null, CPU);
  }

  private static byte[] bytes(File directory, String file, int status) {
    try (RandomAccessFile in = new RandomAccessFile(new File(directory, file), "r")) {
      byte[] all = new byte[(int) Math.min(in.length(), Integer.MAX_VALUE - 8)];
      in.readFully(all);
      return all;
    } catch (IOException problem) {
      throw SternaException.of(status, file + ": cannot be read: " + problem.getMessage());
    }
  }

  /**
   * Loads a model from memory, with kernels in a library that the system finds by its name or path, such as one of an Android app.
   *
   * @param graph graph.json, direct; not needed afterwards
   * @param params params.bin, direct; it is not copied where it begins on a border of 64 bytes, and else once. The model
   *     keeps it from being collected; it must not change
   * @param library for instance "libmobilenet.so"; trusted as code is, and not compared with the graph's hash
   * @return to be closed
   */
  public static @NotNull Model load(@NotNull ByteBuffer graph, @NotNull ByteBuffer params, @NotNull String library) {
    return load(graph, params, null, library, new Options());
  }

  /**
   * As {@link #load(ByteBuffer, ByteBuffer, String)}.
   *
   * @param graph graph.json, direct
   * @param params params.bin, direct
   * @param strings strings.json, direct, for a model that has one; not needed afterwards
   * @param library its name or path
   * @param options how
   * @return to be closed
   */
  public static @NotNull Model load(
      @NotNull ByteBuffer graph, @NotNull ByteBuffer params, @Nullable ByteBuffer strings, @NotNull String library,
      @NotNull Options options) {
    return load(graph, params, strings, library, options, null);
  }

  /** As above; `library` is null where all kernels are the device's, and `device` where all are the library's. */
  static Model load(
      ByteBuffer graph, ByteBuffer params, @Nullable ByteBuffer strings, @Nullable String library, Options options,
      @Nullable OnDevice device) {
    if (!graph.isDirect() || !params.isDirect() || strings != null && !strings.isDirect())
      throw SternaException.argument("graph, params and strings need direct buffers");
    Map<?, ?> facts = Json.object("graph.json", graph);
    Object name = facts.get("model");
    if (!(name instanceof String) || !((String) name).matches("[A-Za-z_][A-Za-z_0-9]{0,126}"))
      throw SternaException.of(SternaException.MALFORMED, "graph.json: the model's name is missing, or none");
    if (Strings.in(facts) && strings == null)
      throw SternaException.argument("the model has strings: give " + Strings.FILE + " too");
    Strings table = Strings.in(facts) ? Strings.of(facts, strings) : null;
    ByteBuffer weights = params;
    if (Natives.misalignment(params, params.position()) != 0) {
      weights = Tensor.aligned(params.remaining(), "params");
      weights.put(params.duplicate()).flip();
    }
    byte[] path = library == null ? null : Natives.path(library);
    byte[] symbol = Natives.path("sterna_" + name + "_library");
    boolean some = device != null;
    long address = Natives.loadTable(
        graph, graph.position(), graph.remaining(), weights, weights.position(), weights.remaining(), path, symbol,
        options.threads, some ? Natives.path(device.kind) : null, some ? Natives.path(device.name) : null,
        some ? device.module : null, some ? device.module.position() : 0, some ? device.module.remaining() : 0,
        some ? device.cache : null);
    return new Model(address, table, weights, some ? device.kind : CPU);
  }

  /**
   * As {@link #load(ByteBuffer, ByteBuffer, String)}, from streams, which are read to their ends and stay open. Weights are
   * read to the heap and copied once from there.
   *
   * @param graph graph.json
   * @param params params.bin
   * @param library its name or path
   * @param options how
   * @return to be closed
   * @throws IOException as the streams
   */
  public static @NotNull Model load(
      @NotNull InputStream graph, @NotNull InputStream params, @NotNull String library, @NotNull Options options)
      throws IOException {
    return load(Tensor.aligned(graph), Tensor.aligned(params), null, library, options);
  }

  /** As address, where no run is under way. */
  private long idle(String what) {
    long address = address();
    if (running) throw SternaException.argument("onNode called " + what + " within the run");
    return address;
  }

  /** The caller holds the lock. */
  long address() {
    if (handle.address == 0) throw SternaException.argument("the model is closed");
    return handle.address;
  }

  Strings strings() {
    return strings;
  }

  boolean hasComputedDims() {
    return computes;
  }

  /**
   * Returns the name that the model was compiled under.
   *
   * @return a C identifier
   */
  public @NotNull String name() {
    return name;
  }

  /**
   * Returns where the model runs.
   *
   * @return the kind of device, such as "opencl", or "cpu"
   */
  public @NotNull String backend() {
    return backend;
  }

  /**
   * Returns why a model that has kernels for a device runs on the CPU.
   *
   * @return the message of what was refused; empty where it runs on the device, or has no kernels for one
   */
  public @NotNull String reason() {
    return reason;
  }

  /** Why it runs on the CPU. */
  Model because(String why) {
    reason = why;
    return this;
  }

  /**
   * Returns the inputs, in the model's order.
   *
   * @return always the same list, which cannot be changed
   */
  public @NotNull List<Tensor> inputs() {
    return inputs;
  }

  /**
   * Returns the outputs, in the model's order.
   *
   * @return always the same list, which cannot be changed
   */
  public @NotNull List<Tensor> outputs() {
    return outputs;
  }

  /**
   * Returns an input.
   *
   * @param name as in the model
   * @return one of {@link #inputs()}
   */
  public @NotNull Tensor input(@NotNull String name) {
    return Tensor.named(inputs, name, "input");
  }

  /**
   * Returns an output.
   *
   * @param name as in the model
   * @return one of {@link #outputs()}
   */
  public @NotNull Tensor output(@NotNull String name) {
    return Tensor.named(outputs, name, "output");
  }

  /**
   * Runs the model on what the memory of its inputs holds; the outputs' memory has the results. Copies nothing and allocates
   * nothing.
   */
  public void run() {
    synchronized (lock) {
      long address = idle("run");
      running = true;
      int status;
      try {
        status = listener == null ? Natives.run(address) : Natives.runTimed(address, this);
      } finally {
        running = false;
        if (computes) refresh(address);
      }
      if (status < 0) Natives.fail(address);
    }
  }

  /**
   * Copies inputs in, runs, and copies outputs out. An input that is not given keeps what it holds. Strings that the model does
   * not know may pass through it.
   *
   * @param values by name: arrays or buffers as of {@link Tensor#set}, at the sizes of the moment ({@link #setDims})
   * @return new arrays as of {@link Tensor#get}, by name
   */
  public @NotNull Map<String, Object> run(@NotNull Map<String, ?> values) {
    synchronized (lock) {
      idle("run");
      if (strings != null && values.keySet().containsAll(strings.inputs)) strings.forget(); // else an input may hold their numbers
      for (Map.Entry<String, ?> entry : values.entrySet()) input(entry.getKey()).set(entry.getValue());
      run();
      Map<String, Object> results = new LinkedHashMap<>();
      for (Tensor output : outputs) results.put(output.name(), output.get());
      return results;
    }
  }

  private void refresh(long address) {
    for (int i = 0; i < inputs.size(); i++) inputs.get(i).refresh(address);
    for (int i = 0; i < outputs.size(); i++) outputs.get(i).refresh(address);
  }

  /**
   * Returns the open dimensions at this moment: first those that {@link #setDims} sets, then those that the model computes.
   *
   * @return empty for a model all of whose sizes are known
   */
  public @NotNull List<Dim> dims() {
    synchronized (lock) {
      long address = address();
      List<Dim> dims = new ArrayList<>();
      int count = Natives.dimCount(address);
      for (int i = 0; i < count; i++) {
        long[] facts = new long[4];
        dims.add(new Dim(Json.text(Natives.dim(address, i, facts)), facts));
      }
      return dims;
    }
  }

  /**
   * Sets open dimensions; others stay as they are. The shapes of all tensors follow, and what their memory holds is no value any
   * more: write the inputs afterwards.
   *
   * @param sizes by the names of {@link #dims()}
   */
  public void setDims(@NotNull Map<String, ? extends Number> sizes) {
    synchronized (lock) {
      long address = address();
      List<String> names = new ArrayList<>();
      List<Dim> open = dims();
      while (!open.isEmpty() && open.get(open.size() - 1).computed) open.remove(open.size() - 1);
      long[] before = new long[open.size()];
      long[] after = new long[open.size()];
      for (int i = 0; i < before.length; i++) {
        Dim dim = open.get(i);
        names.add(dim.name);
        before[i] = dim.size;
        after[i] = sizes.containsKey(dim.name) ? whole(dim.name, sizes.get(dim.name)) : dim.size;
      }
      for (String wanted : sizes.keySet())
        if (!names.contains(wanted))
          throw SternaException.of(SternaException.NOT_FOUND, "no dimension that can be set is named \"" + wanted + "\"; there are " + names);
      Natives.setDims(address, after);
      refresh(address);
      String problem = null;
      for (Tensor input : inputs) problem = problem == null ? input.tooSmall() : problem;
      for (Tensor output : outputs) problem = problem == null ? output.tooSmall() : problem;
      if (problem == null) return;
      Natives.setDims(address, before);
      refresh(address);
      throw SternaException.argument(problem);
    }
  }

  private static long whole(String name, @Nullable Number size) {
    if (size == null || size.longValue() != size.doubleValue()) throw SternaException.argument(name + " = " + size + " is no size");
    return size.longValue();
  }

  /**
   * Sets one open dimension; as {@link #setDims}.
   *
   * @param name of {@link #dims()}
   * @param size within its bounds
   */
  public void setDim(@NotNull String name, long size) {
    setDims(Collections.singletonMap(name, size));
  }

  /** Resets recurrent states and caches to what they are after loading. Does nothing to a model without states. */
  public void resetState() {
    synchronized (lock) {
      Natives.resetState(address());
    }
  }

  /**
   * Times every following run, node by node.
   *
   * @param listener null stops it; a run without one allocates nothing and is not slowed down
   */
  public void onNode(@Nullable OnNode listener) {
    synchronized (lock) {
      long address = address();
      if (listener != null && nodes.length > 0 && nodes[0] == null)
        for (int i = 0; i < nodes.length; i++) nodes[i] = Json.text(Natives.node(address, i, new int[1])[0]);
      this.listener = listener;
    }
  }

  /** Called by the native library. */
  void nodeDone(int node, long nanoseconds) {
    OnNode told = listener; // which may have left within this run
    if (told != null) told.onNode(node, nodes[node], nanoseconds);
  }

  /**
   * Runs the model some times on what its inputs hold, and says how long every node takes.
   *
   * @param runs at least 1
   * @return in the order of execution; the mean of the runs
   */
  public @NotNull List<NodeTime> profile(int runs) {
    if (runs < 1) throw SternaException.argument("profile needs at least 1 run; given: " + runs);
    synchronized (lock) {
      long address = idle("profile");
      long[] totals = new long[nodes.length];
      for (int i = 0; i < runs; i++) {
        int status = Natives.runProfiled(address, totals);
        if (computes) refresh(address);
        if (status < 0) Natives.fail(address);
      }
      List<NodeTime> times = new ArrayList<>();
      for (int i = 0; i < nodes.length; i++) {
        int[] tasks = new int[1];
        byte[][] names = Natives.node(address, i, tasks);
        times.add(new NodeTime(Json.text(names[0]), Json.text(names[1]), tasks[0], totals[i] / runs));
      }
      return times;
    }
  }

  /**
   * Returns the bytes that the model needs at its largest sizes.
   *
   * @return its arena, the scratch of a thread, its inputs and outputs, and its weights: in this order
   */
  public @NotNull long[] memory() {
    synchronized (lock) {
      long[] facts = new long[4];
      Natives.memory(address(), facts);
      return facts;
    }
  }

  /**
   * Returns the version of the runtime.
   *
   * @return for instance "0.1.0"
   */
  public static @NotNull String version() {
    return Json.text(Natives.version());
  }

  /**
   * Stops the model's threads and frees its memory; waits for a run of another thread. A second call does nothing. Views of inputs
   * and outputs stay valid. Within {@link OnNode} it is an error.
   */
  @Override
  public void close() {
    synchronized (lock) {
      if (running) throw SternaException.argument("onNode called close within the run");
      handle.unload();
    }
  }

  @Override
  public @NotNull String toString() {
    return name + inputs + " -> " + outputs;
  }
}
