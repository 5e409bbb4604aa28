package dev.sterna;

import android.content.res.AssetFileDescriptor;
import android.content.res.AssetManager;
import java.io.File;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.jetbrains.annotations.NotNull;
import org.jetbrains.annotations.Nullable;

/**
 * Loads models that are part of an Android app, as {@code sterna package --for android} puts them there: graph and weights are
 * assets, kernels a library of the app. It is apart from {@link Model} so that programs which know no Android compile against that.
 */
public final class Assets {
  private static final String FOLDER = "sterna/";
  private static final String PARAMS = "params.bin.jet";
  /** Of these, the CPU's kernels take the place: no device or too little of one, no memory, no compiler that takes the kernels. */
  private static final List<String> ELSEWHERE = Arrays.asList("E0507", "E0502", "E0508");

  private Assets() {}

  /**
   * Loads a model. Any thread may call it, best not the one that draws.
   *
   * @param assets of the app: {@code context.getAssets()}
   * @param model its name
   * @return to be closed
   * @throws IOException an asset is missing
   */
  public static @NotNull Model load(@NotNull AssetManager assets, @NotNull String model) throws IOException {
    return load(assets, model, new Options());
  }

  /**
   * As {@link #load(AssetManager, String)}. Weights are mapped from the app's file where they are stored in it without compression
   * and on a border of 64 bytes; else they are copied once.
   *
   * @param assets of the app
   * @param model its name
   * @param options how
   * @return to be closed
   * @throws IOException an asset is missing
   */
  public static @NotNull Model load(@NotNull AssetManager assets, @NotNull String model, @NotNull Options options)
      throws IOException {
    String place = FOLDER + model + "/";
    ByteBuffer graph = read(assets, place + "graph-" + Natives.abi() + ".json");
    Map<?, ?> facts = Json.object("graph.json", graph);
    String better = variant(facts);
    if (better != null) {
      graph = read(assets, place + better);
      facts = Json.object(better, graph);
    }
    ByteBuffer strings = Strings.in(facts) ? read(assets, place + Strings.FILE) : null;
    return Model.load(graph, mapped(assets, place + PARAMS), strings, String.valueOf(facts.get("library")), options);
  }

  /**
   * As {@link #load(AssetManager, String, Options)}, of a model that also has kernels for a device: it runs there if the phone has
   * one, else on the CPU. {@link Model#backend} says where, and {@link Model#reason} why.
   *
   * @param assets of the app
   * @param model its name
   * @param options how
   * @param kind of the device: "opencl"
   * @param cache a folder of the app alone, where drivers keep what they make of kernels, which takes long; null: nothing is kept
   * @return to be closed
   * @throws IOException an asset is missing
   */
  public static @NotNull Model load(
      @NotNull AssetManager assets, @NotNull String model, @NotNull Options options, @NotNull String kind, @Nullable File cache)
      throws IOException {
    if (options.onlyCpu) return load(assets, model, options).because("Options.onlyCpu");
    try {
      return onDevice(assets, FOLDER + model + "/" + kind + "/", model, options, kind, cache);
    } catch (SternaException problem) {
      if (!ELSEWHERE.contains(problem.getCode())) throw problem;
      return load(assets, model, options).because(problem.getMessage());
    }
  }

  private static Model onDevice(AssetManager assets, String place, String model, Options options, String kind, File cache)
      throws IOException {
    ByteBuffer graph = read(assets, place + "graph-" + Natives.abi() + ".json");
    Map<?, ?> facts = Json.object("graph.json", graph);
    String name = OnDevice.module(facts);
    OnDevice device = new OnDevice(kind, name, read(assets, place + name), cache == null ? null : cache.getPath());
    ByteBuffer strings = Strings.in(facts) ? read(assets, FOLDER + model + "/" + Strings.FILE) : null;
    Object library = facts.get("library");
    return Model.load(
        graph, mapped(assets, place + PARAMS), strings, library == null ? null : String.valueOf(library), options, device);
  }

  /** The graph of the first variant that this processor can run, or null. */
  private static String variant(Map<?, ?> graph) {
    try {
      List<?> variants = (List<?>) graph.get("variants");
      if (variants == null) return null;
      for (Object each : variants) {
        Map<?, ?> variant = (Map<?, ?>) each;
        boolean able = true;
        for (Object feature : (List<?>) variant.get("cpu_features")) able &= Natives.cpuHas(Natives.path((String) feature)) == 1;
        if (able) return (String) Objects.requireNonNull(variant.get("graph"));
      }
      return null;
    } catch (ClassCastException | NullPointerException wrong) {
      throw SternaException.of(SternaException.MALFORMED, "graph.json: variants is no list of graphs");
    }
  }

  private static ByteBuffer read(AssetManager assets, String file) throws IOException {
    try (InputStream in = assets.open(file)) {
      return Tensor.aligned(in);
    }
  }

  private static ByteBuffer mapped(AssetManager assets, String file) throws IOException {
    AssetFileDescriptor entry;
    try {
      entry = assets.openFd(file);
    } catch (IOException compressed) { // or missing, which the next line says
      return read(assets, file);
    }
    try {
      return new FileInputStream(entry.getFileDescriptor()).getChannel().map(FileChannel.MapMode.READ_ONLY, entry.getStartOffset(), entry.getLength());
    } finally {
      entry.close();
    }
  }
}
