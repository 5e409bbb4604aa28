package dev.sterna;

/** A request that is answered with an error of docs/rpc.md. */
final class RpcRefusal extends RuntimeException {
  private static final long serialVersionUID = 1;

  static final int MALFORMED = 1;
  static final int TOO_LARGE = 2;
  static final int VERSION = 3;
  static final int DENIED = 4;
  static final int STATE = 5;
  static final int BUSY = 6;
  static final int SLOW = 7;
  static final int IDLE = 8;
  static final int FULL = 9;
  static final int HASH = 10;
  static final int MISSING = 11;
  static final int HUNG = 13;
  static final int UNKNOWN = 14;
  static final int SYSTEM = 15;
  static final int OFFSET = 16;
  static final int UNSUPPORTED = 17;

  final int status;
  final boolean closes;

  RpcRefusal(int status, String message) {
    this(status, message, false);
  }

  RpcRefusal(int status, String message, boolean closes) {
    super(message);
    this.status = status;
    this.closes = closes;
  }
}
