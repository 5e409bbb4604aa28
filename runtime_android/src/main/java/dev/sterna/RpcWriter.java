package dev.sterna;

import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;

/** Bytes of a reply, in little endian. */
final class RpcWriter {
  private final ByteArrayOutputStream made = new ByteArrayOutputStream();

  private RpcWriter number(long n, int bytes) {
    for (int i = 0; i < bytes; i++) made.write((int) (n >>> (8 * i)));
    return this;
  }

  RpcWriter u32(int n) {
    return number(n, 4);
  }

  RpcWriter u64(long n) {
    return number(n, 8);
  }

  RpcWriter f32(float n) {
    return u32(Float.floatToRawIntBits(n));
  }

  RpcWriter bytes(byte[] bytes) {
    made.write(bytes, 0, bytes.length);
    return this;
  }

  RpcWriter text(String text) {
    byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
    return u32(bytes.length).bytes(bytes);
  }

  byte[] made() {
    return made.toByteArray();
  }
}
