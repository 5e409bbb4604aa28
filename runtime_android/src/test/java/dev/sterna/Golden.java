package dev.sterna;

import java.io.File;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Replays the golden sets of a bundle: the same file as in C++, JavaScript and Python. Run as a program, it prints the largest error. */
final class Golden {
  final double tolerance;
  final double worst;
  final int sets;

  private Golden(double tolerance, double worst, int sets) {
    this.tolerance = tolerance;
    this.worst = worst;
    this.sets = sets;
  }

  /** Prints a line for every bundle; the last is "passed" or "failed". */
  public static void main(String[] bundles) throws IOException {
    boolean good = true;
    for (String bundle : bundles) {
      Golden result = replay(new File(bundle), 1);
      good &= result.worst <= 1;
      System.out.println(bundle + ": " + result.sets + " sets, largest error " + result.worst + " of what is allowed");
    }
    System.out.println(good ? "passed" : "failed");
    System.exit(good ? 0 : 1);
  }

  private static ByteBuffer file(File bundle, String name) throws IOException {
    return ByteBuffer.wrap(Files.readAllBytes(new File(bundle, name).toPath())).order(ByteOrder.nativeOrder());
  }

  /** The largest error of any output, as a multiple of what its tolerance allows; infinite where what must be equal is not. */
  static Golden replay(File bundle, int threads) throws IOException {
    Map<?, ?> golden = Json.object("golden.json", file(bundle, "golden.json"));
    ByteBuffer data = file(bundle, "golden.bin");
    double tolerance = (Double) golden.get("tolerance");
    double worst = 0;
    try (Model model = Model.load(bundle, new Options().threads(threads))) {
      for (Object set : (List<?>) golden.get("sets")) {
        Map<?, ?> members = (Map<?, ?>) set;
        model.resetState();
        setSizes(model, (List<?>) members.get("inputs"));
        Map<String, Object> inputs = new HashMap<>();
        for (Object row : (List<?>) members.get("inputs")) inputs.put(name(row), values((Map<?, ?>) row, data));
        Map<String, Object> outputs = model.run(inputs);
        for (Object row : (List<?>) members.get("outputs")) {
          Map<?, ?> wanted = (Map<?, ?>) row;
          Tensor output = model.output(name(row));
          if (!java.util.Arrays.equals(output.shape(), dims(wanted)))
            throw new AssertionError(output + " should be " + wanted.get("dims"));
          Object own = wanted.get("tolerance");
          double allowed = own == null ? tolerance : Math.max(tolerance, (Double) own);
          worst = Math.max(worst, difference(outputs.get(output.name()), values(wanted, data), output.type()) / allowed);
        }
      }
    }
    return new Golden(tolerance, worst, ((List<?>) golden.get("sets")).size());
  }

  private static String name(Object row) {
    return (String) ((Map<?, ?>) row).get("name");
  }

  private static long[] dims(Map<?, ?> row) {
    return ((List<?>) row.get("dims")).stream().mapToLong(n -> ((Double) n).longValue()).toArray();
  }

  /** Finds the open dimensions by trying: a size one larger at a time, and seeing which sizes of inputs follow. */
  private static void setSizes(Model model, List<?> inputs) {
    Map<String, Long> sizes = new LinkedHashMap<>();
    for (Dim dim : model.dims()) if (!dim.computed && dim.lo < dim.hi) sizes.put(dim.name, dim.lo);
    if (sizes.isEmpty()) return;
    Map<String, Long> found = new LinkedHashMap<>(sizes);
    for (String symbol : sizes.keySet()) {
      model.setDims(sizes);
      Map<String, long[]> before = shapes(model);
      model.setDim(symbol, sizes.get(symbol) + 1);
      Map<String, long[]> after = shapes(model);
      for (Object row : inputs)
        for (int axis = 0; axis < dims((Map<?, ?>) row).length; axis++)
          if (after.get(name(row))[axis] == before.get(name(row))[axis] + 1)
            found.put(symbol, sizes.get(symbol) + dims((Map<?, ?>) row)[axis] - before.get(name(row))[axis]);
    }
    model.setDims(found);
  }

  private static Map<String, long[]> shapes(Model model) {
    Map<String, long[]> shapes = new HashMap<>();
    for (Tensor input : model.inputs()) shapes.put(input.name(), input.shape());
    return shapes;
  }

  private static Object values(Map<?, ?> row, ByteBuffer data) {
    if (row.get("dtype").equals("string")) return ((List<?>) row.get("strings")).toArray(new String[0]);
    ByteBuffer part = data.duplicate();
    int at = ((Double) row.get("offset")).intValue();
    part.position(at).limit(at + ((Double) row.get("bytes")).intValue());
    String type = ((String) row.get("dtype")).toUpperCase();
    return Elements.array(part.slice().order(ByteOrder.nativeOrder()), DType.valueOf(type), null);
  }

  private static float[] floats(short[] halves) {
    float[] floats = new float[halves.length];
    for (int i = 0; i < halves.length; i++) {
      int exponent = halves[i] >> 10 & 31;
      int fraction = halves[i] & 1023;
      float magnitude = exponent == 0 ? Math.scalb((float) fraction, -24) : Math.scalb((float) (fraction + 1024), exponent - 25);
      if (exponent == 31) magnitude = fraction == 0 ? Float.POSITIVE_INFINITY : Float.NaN;
      floats[i] = halves[i] < 0 ? -magnitude : magnitude;
    }
    return floats;
  }

  private static double difference(Object got, Object wanted, DType type) {
    if (type == DType.FLOAT16) return difference(floats((short[]) got), floats((short[]) wanted), DType.FLOAT32);
    if (got instanceof float[] && wanted instanceof float[]) {
      double most = 0;
      double largest = 1e-30;
      float[] a = (float[]) got;
      float[] b = (float[]) wanted;
      if (a.length != b.length) return Double.POSITIVE_INFINITY;
      for (int i = 0; i < b.length; i++) {
        if (Float.isInfinite(b[i]) || Float.isNaN(b[i])) {
          if (Float.compare(a[i], b[i]) != 0) return Double.POSITIVE_INFINITY;
          continue;
        }
        double apart = Math.abs((double) a[i] - b[i]);
        if (Double.isNaN(apart)) return Double.POSITIVE_INFINITY;
        most = Math.max(most, apart);
        largest = Math.max(largest, Math.abs(b[i]));
      }
      return most / largest;
    }
    return java.util.Objects.deepEquals(got, wanted) ? 0 : Double.POSITIVE_INFINITY;
  }
}
