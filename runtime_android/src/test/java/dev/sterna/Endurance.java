package dev.sterna;

import java.io.File;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;

/** As a program: java -cp ... dev.sterna.Endurance BUNDLE [LOADS [RUNS]]; a million runs and 10,000 loads, if not told otherwise. */
final class Endurance {
  private Endurance() {}

  public static void main(String[] arguments) {
    File bundle = new File(arguments[0]);
    int loads = arguments.length > 1 ? Integer.parseInt(arguments[1]) : 10_000;
    int runs = arguments.length > 2 ? Integer.parseInt(arguments[2]) : 1_000_000;
    System.out.println("nanoseconds of a run: " + nanoseconds(bundle, runs));
    System.out.println("bytes allocated by " + runs + " runs: " + allocated(bundle, runs));
    System.out.println("memory grown by " + loads + " loads and closes: " + growth(bundle, loads / 10, loads) + " bytes");
  }

  /** The fastest of 20 rounds; the first ones warm up. */
  static double nanoseconds(File bundle, int runs) {
    double best = Double.MAX_VALUE;
    try (Model model = Model.load(bundle, new Options())) {
      for (int round = 0; round < 20; round++) {
        long start = System.nanoTime();
        for (int i = 0; i < runs / 20; i++) model.run();
        best = Math.min(best, (System.nanoTime() - start) / (double) (runs / 20));
      }
    }
    return best;
  }

  /** Bytes that the JVM counts for this thread, over all runs. */
  static long allocated(File bundle, int runs) {
    com.sun.management.ThreadMXBean threads = (com.sun.management.ThreadMXBean) ManagementFactory.getThreadMXBean();
    long self = Thread.currentThread().getId();
    try (Model model = Model.load(bundle, new Options())) {
      for (int i = 0; i < 1000; i++) model.run();
      threads.getThreadAllocatedBytes(self);
      long before = threads.getThreadAllocatedBytes(self);
      for (int i = 0; i < runs; i++) model.run();
      return threads.getThreadAllocatedBytes(self) - before;
    }
  }

  /** Bytes by which the process grows from the `warm`th to the last load. */
  static long growth(File bundle, int warm, int loads) {
    long before = 0;
    for (int i = 0; i < loads; i++) {
      if (i == warm) before = resident();
      try (Model model = Model.load(bundle, new Options())) {
        model.run();
      }
    }
    return resident() - before;
  }

  private static long resident() {
    System.gc();
    try {
      String[] pages = new String(Files.readAllBytes(Path.of("/proc/self/statm")), StandardCharsets.US_ASCII).split(" ");
      return Long.parseLong(pages[1]) * 4096;
    } catch (IOException problem) {
      throw new IllegalStateException(problem);
    }
  }
}
