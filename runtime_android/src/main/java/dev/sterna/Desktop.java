package dev.sterna;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;

/** Finds the native library where no Android does: it is in the jar, or where the property dev.sterna.library says. */
final class Desktop {
  private Desktop() {}

  /** The processor's name, the same for every Java. */
  static String machine() {
    String name = System.getProperty("os.arch", "").toLowerCase(Locale.ROOT);
    return name.equals("amd64") ? "x86_64" : name.equals("arm64") ? "aarch64" : name;
  }

  static void loadLibrary() {
    String given = System.getProperty("dev.sterna.library");
    if (given != null) {
      System.load(new File(given).getAbsolutePath());
      return;
    }
    String system = System.getProperty("os.name").toLowerCase(Locale.ROOT);
    String machine = machine();
    system = system.startsWith("windows") ? "windows" : system.startsWith("mac") ? "macos" : system;
    String name = System.mapLibraryName("sterna_jni");
    String place = "natives/" + system + "-" + machine + "/" + name;
    try (InputStream in = Desktop.class.getResourceAsStream(place)) {
      if (in == null) throw new UnsatisfiedLinkError("the jar has no library for this machine: dev/sterna/" + place);
      Path folder = Files.createTempDirectory("sterna"); // no other user can write there
      Path file = folder.resolve(name);
      Files.copy(in, file);
      try {
        System.load(file.toString());
      } finally {
        if (!file.toFile().delete()) file.toFile().deleteOnExit(); // Windows keeps the file of an open library
        if (!folder.toFile().delete()) folder.toFile().deleteOnExit();
      }
    } catch (IOException problem) {
      UnsatisfiedLinkError error = new UnsatisfiedLinkError("the native library cannot be unpacked: " + problem);
      error.initCause(problem);
      throw error;
    }
  }
}
