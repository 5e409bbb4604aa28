package dev.sterna;

/** What the elements of a tensor are. Of the types below 8 bits, an element takes one byte and uses its lowest bits. */
public enum DType {
  /** 32-bit IEEE floats: {@code float[]}. */
  FLOAT32(4),
  /** 64-bit IEEE floats: {@code double[]}. */
  FLOAT64(8),
  /** 16-bit IEEE floats, as their bits: {@code short[]}. */
  FLOAT16(2),
  /** The upper halves of 32-bit floats, as their bits: {@code short[]}. */
  BFLOAT16(2),
  /** {@code byte[]}. */
  INT8(1),
  /** {@code short[]}. */
  INT16(2),
  /** {@code int[]}. */
  INT32(4),
  /** {@code long[]}. */
  INT64(8),
  /** {@code byte[]}, to be read with {@code & 0xff}. */
  UINT8(1),
  /** {@code short[]}, to be read with {@code & 0xffff}. */
  UINT16(2),
  /** {@code int[]}, to be read with {@link Integer#toUnsignedLong}. */
  UINT32(4),
  /** {@code long[]}, to be read with the unsigned methods of {@link Long}. */
  UINT64(8),
  /** {@code byte[]}: 0 or 1. */
  BOOL(1),
  /** {@code byte[]}: the bits of an element. */
  FLOAT8_E4M3FN(1),
  /** {@code byte[]}: the bits of an element. */
  FLOAT8_E4M3FNUZ(1),
  /** {@code byte[]}: the bits of an element. */
  FLOAT8_E5M2(1),
  /** {@code byte[]}: the bits of an element. */
  FLOAT8_E5M2FNUZ(1),
  /** {@code byte[]}: the bits of an element. */
  FLOAT8_E8M0FNU(1),
  /** {@code byte[]}: the bits of an element. */
  FLOAT4_E2M1FN(1),
  /** {@code byte[]}. */
  INT4(1),
  /** {@code byte[]}. */
  UINT4(1),
  /** {@code byte[]}. */
  INT2(1),
  /** {@code byte[]}. */
  UINT2(1),
  /** {@code String[]}; in memory the number of every string, 8 bytes. */
  STRING(8);

  private static final DType[] ALL = values();

  /** Bytes of one element in memory. */
  public final int bytes;

  DType(int bytes) {
    this.bytes = bytes;
  }

  /** The types stand in the order of their numbers in sterna.h, from 1. */
  static DType ofCode(int code) {
    return ALL[code - 1];
  }
}
