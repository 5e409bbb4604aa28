package dev.sterna;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Bundles that tests/targets/test_java.py compiles: digits, open, sizes, counter, labels, quantized. */
class ModelTest {
  static final File BUNDLES = new File(System.getProperty("sterna.bundles"));

  private static Model load(String name) {
    return Model.load(new File(BUNDLES, name).toPath());
  }

  private static SternaException fails(String code, String part, Executable what) {
    SternaException error = assertThrows(SternaException.class, what);
    assertEquals(code, error.getCode());
    assertTrue(error.getMessage().contains(part), error.getMessage());
    assertEquals("E05" + String.format("%02d", -error.getStatus()), error.getCode());
    return error;
  }

  private static ByteBuffer direct(File file) throws IOException {
    byte[] bytes = Files.readAllBytes(file.toPath());
    ByteBuffer buffer = ByteBuffer.allocateDirect(bytes.length);
    buffer.put(bytes).flip();
    return buffer;
  }

  private static float[] ramp(int n) {
    float[] values = new float[n];
    for (int i = 0; i < n; i++) values[i] = (i * 37 % 101) / 101f;
    return values;
  }

  @ParameterizedTest
  @ValueSource(strings = {"digits", "open", "sizes", "labels", "counter", "quantized"})
  void golden(String name) throws IOException {
    for (int threads = 1; threads <= 3; threads += 2) {
      Golden golden = Golden.replay(new File(BUNDLES, name), threads);
      assertTrue(golden.worst <= 1, name + ": " + golden.worst);
      assertTrue(golden.sets >= 3);
    }
  }

  @Test
  void theSignature() {
    try (Model model = load("digits")) {
      assertEquals("digits", model.name());
      assertEquals(1, model.inputs().size());
      Tensor input = model.inputs().get(0);
      assertSame(input, model.input(input.name()));
      assertEquals(DType.FLOAT32, input.type());
      assertEquals(input.elements(), Arrays.stream(input.shape()).reduce(1, (a, b) -> a * b));
      assertNull(input.quantization());
      assertEquals(10, model.outputs().get(0).elements());
      assertTrue(model.toString().startsWith("digits["), model.toString());
      assertTrue(model.dims().isEmpty());
      assertTrue(model.memory()[3] > 9930 * 4);
      assertEquals("0.1.0", Model.version());
      fails("E0509", "no input is named \"y\"; there are [" + input.name(), () -> model.input("y"));
      fails("E0509", "no output is named", () -> model.output("y"));
    }
  }

  @Test
  void quantizationAndLabels() {
    try (Model model = load("quantized")) {
      Quantization quantization = model.inputs().get(0).quantization();
      assertEquals(DType.INT8, model.inputs().get(0).type());
      assertEquals(0.5f, quantization.scales()[0]);
      assertEquals(3, quantization.zeroPoints()[0]);
      assertEquals(4.5f, quantization.real(12));
      assertEquals(12, quantization.quantized(4.6f));
      assertEquals(Integer.MAX_VALUE, quantization.quantized(1e30f));
      assertEquals(Integer.MIN_VALUE, quantization.quantized(Float.NEGATIVE_INFINITY));
      assertEquals(List.of("cat", "dog", "tern"), model.outputs().get(0).labels());
    }
  }

  @Test
  void everyWayToLoadAndToRun() throws IOException {
    File place = new File(BUNDLES, "digits");
    String library = new File(place, "model.so").getPath();
    float[] wanted;
    float[] x;
    try (Model model = load("digits")) {
      x = ramp(model.inputs().get(0).elements());
      wanted = (float[]) model.run(Map.of(model.inputs().get(0).name(), x)).values().iterator().next();
    }
    List<Model> models = new ArrayList<>();
    models.add(Model.load(place, new Options().threads(2)));
    models.add(Model.load(place.toPath(), new Options().threads(3)));
    ByteBuffer graph = direct(new File(place, "graph.json"));
    ByteBuffer params = direct(new File(place, "params.bin"));
    models.add(Model.load(graph, params, library));
    ByteBuffer odd = ByteBuffer.allocateDirect(params.remaining() + 5);
    odd.position(5);
    odd.put(params.duplicate());
    odd.position(5);
    models.add(Model.load(graph, odd, null, library, new Options()));
    try (InputStream one = new FileInputStream(new File(place, "graph.json"));
        InputStream two = new FileInputStream(new File(place, "params.bin"))) {
      models.add(Model.load(one, two, library, new Options()));
    }
    for (Model model : models) {
      try (model) {
        model.inputs().get(0).floats().put(x);
        model.run();
        assertArrayEquals(wanted, (float[]) model.outputs().get(0).get());
        model.inputs().get(0).set(FloatBuffer.wrap(new float[x.length]));
        model.run();
        assertNotEquals(wanted[0], model.outputs().get(0).floats().get(0));
      }
    }
  }

  @Test
  void boundMemory() {
    try (Model model = load("digits")) {
      Tensor input = model.inputs().get(0);
      Tensor output = model.outputs().get(0);
      float[] x = ramp(input.elements());
      Object wanted = model.run(Map.of(input.name(), x)).get(output.name());
      ByteBuffer in = ByteBuffer.allocateDirect(x.length * 4 + 8).order(ByteOrder.nativeOrder());
      ByteBuffer out = ByteBuffer.allocateDirect(40).order(ByteOrder.nativeOrder());
      in.position(8);
      in.slice().order(ByteOrder.nativeOrder()).asFloatBuffer().put(x);
      input.set(new float[x.length]);
      input.bind(in);
      output.bind(out);
      model.run();
      float[] got = new float[10];
      out.asFloatBuffer().get(got);
      assertArrayEquals((float[]) wanted, got);
      assertArrayEquals(got, (float[]) output.get());
      assertEquals(8, in.position());
      input.bind(null);
      model.run();
      assertNotEquals(got[0], out.getFloat(0));
      fails("E0501", "direct", () -> input.bind(ByteBuffer.allocate(x.length * 4)));
      fails("E0501", "the buffer has 8", () -> input.bind(ByteBuffer.allocateDirect(8)));
      fails("E0501", "read-only", () -> output.bind(out.asReadOnlyBuffer()));
      in.position(1);
      fails("E0501", "not aligned", () -> input.bind(in));
      input.bind(((ByteBuffer) in.position(8)).asReadOnlyBuffer());
      fails("E0501", "read-only", () -> input.set(x));
      model.run();
      assertArrayEquals((float[]) wanted, (float[]) output.get());
    }
  }

  @Test
  void wrongValuesAreNamed() {
    try (Model model = load("digits")) {
      Tensor input = model.inputs().get(0);
      fails("E0501", "FLOAT32; a double[] was given", () -> input.set(new double[input.elements()]));
      fails("E0501", "only 3 were given", () -> input.set(new float[3]));
      fails("E0501", "more were given", () -> input.set(new float[input.elements() + 1]));
      fails("E0501", "is FLOAT32, not INT64", input::longs);
      fails("E0501", "not FLOAT64", input::doubles);
      fails("E0501", "not INT32", input::ints);
      fails("E0501", "not 16 bits", input::shorts);
      fails("E0501", "a String[] was given", () -> model.run(Map.of(input.name(), new String[] {"x"})));
      fails("E0501", "null was given", () -> input.set(null));
      fails("E0501", "character 0", () -> Model.load(new File(BUNDLES, "digits\0x"), new Options()));
      fails("E0501", "options.threads", () -> Model.load(new File(BUNDLES, "digits"), new Options().threads(0)));
      fails("E0501", "at least 1", () -> model.profile(0));
    }
  }

  @Test
  void openDimensions() {
    try (Model model = load("open")) {
      assertEquals(2, model.dims().size());
      Dim first = model.dims().get(0);
      assertEquals("batch", first.name);
      assertEquals(8, first.size);
      assertFalse(first.computed);
      assertEquals("batch = 8 (1 to 8)", first.toString());
      model.setDims(Map.of("batch", 2, "seq", 5));
      Tensor input = model.inputs().get(0);
      assertEquals(2, input.shape()[0]);
      assertEquals(input.elements(), input.buffer().remaining() / input.type().bytes);
      SternaException error = fails("E0501", "batch", () -> model.setDim("batch", 9));
      assertEquals(-1, error.getStatus());
      assertEquals(2, input.shape()[0]);
      fails("E0501", "batch = 1.5", () -> model.setDims(Map.of("batch", 1.5)));
      fails("E0501", "batch = null", () -> model.setDims(Collections.singletonMap("batch", null)));
      fails("E0509", "there are [batch, seq]", () -> model.setDim("x", 1));
      ByteBuffer small = ByteBuffer.allocateDirect(input.buffer().remaining());
      input.bind(small);
      fails("E0501", "the memory bound to it has", () -> model.setDim("batch", 3));
      assertEquals(2, model.dims().get(0).size);
      model.setDim("batch", 1);
      model.run();
      input.bind(null);
      model.setDim("batch", 8);
      model.run();
    }
  }

  @Test
  void sizesThatTheDataDecide() {
    try (Model model = load("sizes")) {
      Dim computed = model.dims().get(model.dims().size() - 1);
      assertTrue(computed.computed);
      long[] most = model.outputs().get(0).shape();
      for (Tensor input : model.inputs()) input.buffer().put(new byte[input.buffer().remaining()]);
      model.run();
      long[] now = model.outputs().get(0).shape();
      assertTrue(Arrays.stream(now).sum() < Arrays.stream(most).sum(), Arrays.toString(now));
      assertEquals(model.outputs().get(0).elements(), model.outputs().get(0).buffer().remaining() / 8);
      fails("E0509", "there are []", () -> model.setDim(computed.name, 1));
      int bytes = model.outputs().get(0).buffer().remaining();
      fails("E0501", "bytes; the buffer has " + bytes, () -> model.outputs().get(0).bind(ByteBuffer.allocateDirect(bytes)));
    }
  }

  @Test
  void states() {
    try (Model model = load("counter")) {
      Map<String, float[]> given = Map.of(model.inputs().get(0).name(), new float[] {1, 2});
      String sum = model.outputs().get(0).name();
      assertArrayEquals(new float[] {8, 9}, (float[]) model.run(given).get(sum));
      assertArrayEquals(new float[] {9, 11}, (float[]) model.run(given).get(sum));
      model.resetState();
      assertArrayEquals(new float[] {8, 9}, (float[]) model.run(given).get(sum));
    }
  }

  @Test
  void strings() throws IOException {
    try (Model model = load("labels")) {
      assertEquals(DType.STRING, model.input("x").type());
      Map<String, Object> got = model.run(Map.of("x", new String[] {"tern", "dodo", "gull", "dodo"}));
      assertArrayEquals(new String[] {"Sternidae", "?", "Laridae", "?"}, (String[]) got.get("group"));
      assertArrayEquals(new long[] {7, -1, 9, -1}, (long[]) got.get("number"));
      assertArrayEquals(new String[] {"tern", "dodo", "gull", "dodo"}, (String[]) got.get("same"));
      assertEquals(4, model.input("x").longs().remaining());
      fails("E0501", "is null", () -> model.run(Map.of("x", new String[4])));
      fails("E0501", "a long[] was given", () -> model.run(Map.of("x", new long[4])));
    }
    File place = new File(BUNDLES, "labels");
    ByteBuffer graph = direct(new File(place, "graph.json"));
    ByteBuffer params = direct(new File(place, "params.bin"));
    String library = new File(place, "model.so").getPath();
    fails("E0501", "strings.json", () -> Model.load(graph, params, library));
    ByteBuffer heap = ByteBuffer.wrap(Files.readAllBytes(new File(place, "strings.json").toPath()));
    fails("E0501", "direct", () -> Model.load(graph, params, heap, library, new Options()));
    ByteBuffer table = direct(new File(place, "strings.json"));
    Model.load(graph, params, table, library, new Options()).close();
    table.put(12, (byte) (table.get(12) + 1));
    fails("E0505", "strings.json", () -> Model.load(graph, params, table, library, new Options()));
  }

  @Test
  void aBundleOfStringsNeedsItsTable(@TempDir File place) throws IOException {
    for (String name : List.of("graph.json", "params.bin", "model.so"))
      Files.copy(new File(BUNDLES, "labels/" + name).toPath(), new File(place, name).toPath());
    fails("E0505", "strings.json", () -> Model.load(place, new Options()));
  }

  @Test
  void profiles() {
    try (Model model = load("digits")) {
      List<NodeTime> times = model.profile(3);
      assertTrue(times.size() > 1);
      List<String> heard = new ArrayList<>();
      model.onNode((node, name, nanoseconds) -> {
        assertEquals(heard.size(), node);
        assertTrue(nanoseconds >= 0);
        heard.add(name);
      });
      model.run();
      for (int i = 0; i < times.size(); i++) assertEquals(times.get(i).name, heard.get(i));
      assertTrue(times.get(0).toString().contains(times.get(0).kernel));
      model.onNode(null);
      model.run();
      assertEquals(times.size(), heard.size());
    }
  }

  @Test
  void aListenerMayNotChangeTheModel() {
    try (Model model = load("digits")) {
      model.onNode((node, name, nanoseconds) -> model.close());
      fails("E0501", "within the run", model::run);
      model.onNode((node, name, nanoseconds) -> model.run());
      fails("E0501", "within the run", model::run);
      model.onNode((node, name, nanoseconds) -> model.profile(1));
      fails("E0501", "within the run", model::run);
      model.onNode((node, name, nanoseconds) -> model.inputs().get(0).bind(null));
      fails("E0501", "within its run", model::run);
      model.onNode((node, name, nanoseconds) -> model.resetState());
      fails("E0501", "within its run", model::run);
      model.onNode((node, name, nanoseconds) -> {
        throw new IllegalStateException("mine");
      });
      assertThrows(IllegalStateException.class, model::run);
      model.onNode(null);
      model.run();
    }
  }

  @Test
  void aListenerMayLeave() {
    try (Model model = load("digits")) {
      List<String> heard = new ArrayList<>();
      model.onNode((node, name, nanoseconds) -> {
        heard.add(name);
        model.onNode(null);
      });
      model.run();
      model.run();
      assertEquals(1, heard.size());
    }
  }

  @Test
  void aRunWithinARunWritesNothing() {
    try (Model model = load("digits")) {
      Tensor input = model.inputs().get(0);
      float[] x = ramp(input.elements());
      input.set(x);
      model.onNode((node, name, nanoseconds) -> model.run(Map.of(input.name(), new float[x.length])));
      fails("E0501", "within the run", model::run);
      assertArrayEquals(x, (float[]) input.get());
    }
  }

  @Test
  void closedModels() {
    Model model = load("digits");
    Tensor input = model.inputs().get(0);
    FloatBuffer view = input.floats();
    model.close();
    model.close();
    view.put(0, 1); // the JVM's memory
    assertEquals("digits", model.name());
    assertEquals(1, model.inputs().size());
    for (Executable use : List.<Executable>of(model::run, model::dims, model::resetState, model::memory,
        () -> model.profile(1), () -> model.onNode(null), () -> model.run(Map.of()), () -> model.setDim("x", 1),
        () -> input.set(new float[1]), () -> input.bind(null))) fails("E0501", "the model is closed", use);
  }

  @Test
  void closeWaitsForARun() throws InterruptedException {
    Model model = load("digits");
    CountDownLatch within = new CountDownLatch(1);
    CountDownLatch go = new CountDownLatch(1);
    AtomicReference<Throwable> problem = new AtomicReference<>();
    model.onNode((node, name, nanoseconds) -> {
      within.countDown();
      try {
        go.await(10, TimeUnit.SECONDS);
      } catch (InterruptedException stopped) {
        problem.set(stopped);
      }
    });
    Thread runner = new Thread(() -> {
      try {
        model.run();
      } catch (Throwable thrown) {
        problem.set(thrown);
      }
    });
    Thread closer = new Thread(model::close);
    runner.start();
    assertTrue(within.await(10, TimeUnit.SECONDS));
    closer.start();
    closer.join(50);
    assertTrue(closer.isAlive());
    go.countDown();
    runner.join(10_000);
    closer.join(10_000);
    assertNull(problem.get());
    fails("E0501", "closed", model::run);
  }

  /** Whoever holds the lock of a model may be in one of its native functions, although nothing refers to the model any more. */
  @Test
  void forgottenModelsAreLoggedAndFreed() throws InterruptedException {
    CountDownLatch logged = new CountDownLatch(1);
    Logger logger = Logger.getLogger("dev.sterna");
    Handler handler = new Handler() {
      @Override
      public void publish(LogRecord record) {
        if (record.getMessage().contains("never closed: \"digits\"")) logged.countDown();
      }

      @Override
      public void flush() {}

      @Override
      public void close() {}
    };
    logger.addHandler(handler);
    logger.setUseParentHandlers(false);
    try {
      synchronized (forget()) {
        collect(logged, 5);
        assertEquals(1, logged.getCount());
      }
      collect(logged, 100);
      assertEquals(0, logged.getCount());
    } finally {
      logger.removeHandler(handler);
      logger.setUseParentHandlers(true);
    }
  }

  private static Object forget() {
    Model model = load("digits");
    model.run();
    return model.lock;
  }

  private static void collect(CountDownLatch until, int times) throws InterruptedException {
    for (int i = 0; i < times && until.getCount() > 0; i++) {
      System.gc();
      until.await(100, TimeUnit.MILLISECONDS);
    }
  }

  @Test
  void brokenBundles() throws IOException {
    fails("E0503", "graph.json", () -> Model.load(Path.of("no", "such", "bundle")));
    File place = new File(BUNDLES, "digits");
    ByteBuffer graph = direct(new File(place, "graph.json"));
    ByteBuffer params = direct(new File(place, "params.bin"));
    String library = new File(place, "model.so").getPath();
    fails("E0501", "direct", () -> Model.load(ByteBuffer.allocate(4), params, library));
    fails("E0504", "graph.json", () -> Model.load(ByteBuffer.allocateDirect(4), params, library));
    fails("E0508", "nowhere.so", () -> Model.load(graph, params, "nowhere.so"));
    fails("E0508", "no function sterna_digits_library", () -> Model.load(graph, params, new File(BUNDLES, "open/model.so").getPath()));
    ByteBuffer cut = params.duplicate();
    cut.limit(64);
    fails("E0505", "params.bin", () -> Model.load(graph, cut, library));
    ByteBuffer changed = direct(new File(place, "graph.json"));
    changed.put(changed.limit() - 20, (byte) 'x');
    assertThrows(SternaException.class, () -> Model.load(changed, params, library));
  }

  @Test
  void json() {
    Map<?, ?> read = Json.object("f", ByteBuffer.wrap("{\"a\": [1, -2.5e1, true, null, \"\\u00e9\\n\"], \"b\": {}} ".getBytes()));
    assertEquals(Arrays.asList(1.0, -25.0, true, null, "é\n"), read.get("a"));
    assertEquals(Map.of(), read.get("b"));
    for (String bad : List.of("", "[1]", "{\"a\": 1", "{\"a\" 1}", "{} x", "{\"a\": tru}", "[".repeat(100), "{\"\\q\": 1}", "{\"\\u12\": 1}"))
      fails("E0504", "f: is no JSON", () -> Json.object("f", ByteBuffer.wrap(bad.getBytes())));
  }

  /** A sample of what `Endurance` does for longer: memory stays flat, and a run allocates nothing. */
  @Test
  void enduranceSample() {
    long allocated = Endurance.allocated(new File(BUNDLES, "relu"), 20_000);
    assertTrue(allocated < 20_000, "the JVM itself allocates now and then; an object in every run would be 320,000 bytes: " + allocated);
    // The JVM's own memory grows now and then, what a model leaves behind grows every time.
    long growth = Long.MAX_VALUE;
    for (int n = 0; n < 3 && growth >= 12 << 20; n++) growth = Math.min(growth, Endurance.growth(new File(BUNDLES, "relu"), 300, 3000));
    assertTrue(growth < 12 << 20, "grew by " + growth);
  }
}
