package dev.sterna;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;

/**
 * The functions of jni/sterna_jni.c, and how its library is found. Strings cross in UTF-8. Unless it is said otherwise a
 * function throws a SternaException for what it refuses. `model` is an address that load returned; the caller sees to it that
 * it is still loaded and that no other thread uses it.
 */
final class Natives {
  static final int INPUT = 0;
  static final int OUTPUT = 1;

  static {
    if (System.getProperty("java.vm.vendor", "").contains("Android")) System.loadLibrary("sterna_jni");
    else Desktop.loadLibrary();
  }

  private Natives() {}

  /** A path or name as the functions take it. */
  static byte[] path(String text) {
    if (text.indexOf('\0') >= 0) throw SternaException.argument("a path has the character 0 in it, where it would end");
    return text.getBytes(StandardCharsets.UTF_8);
  }

  static native long load(byte[] directory, int threads);

  /**
   * Without kernels in a library, that is null; without those of a device, all that follows `threads` is: its kind, the file of
   * its kernels, and a folder for what its driver makes of them, which may be null as well.
   */
  static native long loadTable(
      ByteBuffer graph, long graphAt, long graphBytes, ByteBuffer params, long paramsAt, long paramsBytes, byte[] library,
      byte[] symbol, int threads, byte[] kind, byte[] moduleName, ByteBuffer module, long moduleAt, long moduleBytes, byte[] cache);

  static native void unload(long model);

  /** Throws nothing: a negative result is a status, and {@link #fail} throws what there is to say. */
  static native int run(long model);

  /** As run; calls {@link Model#nodeDone} after every node. */
  static native int runTimed(long model, Model listener);

  static native int runProfiled(long model, long[] totals);

  static native void fail(long model);

  static native void resetState(long model);

  static native int count(long model, int kind);

  /** {name, dims, scales, zero points, labels ...}; numbers: type, bytes, axis. */
  static native Object[] tensor(long model, int kind, int index, long[] numbers);

  /** Fills in the sizes of the moment; returns the bytes. */
  static native long sizes(long model, int kind, int index, long[] dims);

  static native void bind(long model, int kind, int index, ByteBuffer memory, long at);

  static native int nodeCount(long model);

  /** {name, kernel}; tasks: one element, filled in. */
  static native byte[][] node(long model, int index, int[] tasks);

  static native int dimCount(long model);

  /** The name; facts: lo, hi, size, computed. */
  static native byte[] dim(long model, int index, long[] facts);

  static native void setDims(long model, long[] sizes);

  /** Arena, scratch, signature, params. */
  static native void memory(long model, long[] facts);

  static native byte[] name(long model);

  static native byte[] version();

  /** The ABI of this process as Android names it: "arm64-v8a" ...; of others "". */
  static String abi() {
    return Json.text(abiName());
  }

  private static native byte[] abiName();

  /** 1 if this machine has the feature, 0 if not, -1 if the name means nothing here. */
  static native int cpuHas(byte[] feature);

  static native long hash(ByteBuffer data, long at, long bytes);

  /** 0 for 64-byte aligned. */
  static native int misalignment(ByteBuffer memory, long at);
}
