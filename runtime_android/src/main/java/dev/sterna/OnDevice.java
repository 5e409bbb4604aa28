package dev.sterna;

import java.nio.ByteBuffer;
import java.util.List;
import java.util.Map;
import java.util.Objects;

/** Kernels of a device, and where its driver may keep what it makes of them. */
final class OnDevice {
  final String kind;
  final String name;
  final ByteBuffer module;
  final byte[] cache;

  /**
   * @param name of the file with the kernels, as {@link #module} says
   * @param module the file, direct
   * @param cache a folder, or null
   */
  OnDevice(String kind, String name, ByteBuffer module, String cache) {
    if (!kind.matches("[a-z]{1,32}")) throw SternaException.argument("there are no devices of the kind \"" + kind + "\"");
    this.kind = kind;
    this.name = name;
    this.module = module;
    this.cache = cache == null ? null : Natives.path(cache);
  }

  /** The name of the file with the kernels of a graph's device. */
  static String module(Map<?, ?> graph) {
    try {
      Map<?, ?> device = (Map<?, ?>) Objects.requireNonNull((List<?>) graph.get("devices")).get(0);
      return (String) Objects.requireNonNull(device.get("module"));
    } catch (ClassCastException | IndexOutOfBoundsException | NullPointerException wrong) {
      throw SternaException.of(SternaException.MALFORMED, "graph.json: devices is no list of some");
    }
  }
}
