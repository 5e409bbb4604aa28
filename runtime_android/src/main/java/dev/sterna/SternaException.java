package dev.sterna;

import org.jetbrains.annotations.NotNull;

/** What a model, or the way it is used, does not allow: the C runtime's code and message. */
public final class SternaException extends RuntimeException {
  private static final long serialVersionUID = 1;

  static final int BAD_ARGUMENT = -1;
  static final int UNREADABLE = -3;
  static final int MALFORMED = -4;
  static final int DAMAGED = -5;
  static final int NOT_FOUND = -9;

  /** Of sterna.h. */
  private final int status;

  /** As every tool prints it. */
  private final @NotNull String code;

  /** Called by the native library, with the message in UTF-8. */
  SternaException(int status, byte[] code, byte[] message) {
    this(status, Json.text(code), Json.text(message));
  }

  private SternaException(int status, String code, String message) {
    super(code + ": " + message);
    this.status = status;
    this.code = code;
  }

  /** An error that is found here; the codes are those of the statuses in sterna.h. */
  static SternaException of(int status, String message) {
    return new SternaException(status, "E05" + (status > -10 ? "0" : "") + -status, message);
  }

  static SternaException argument(String message) {
    return of(BAD_ARGUMENT, message);
  }

  /**
   * Returns the number of a {@code sterna_status} in sterna.h, negative.
   *
   * @return for instance -5, {@code STERNA_DAMAGED}
   */
  public int getStatus() {
    return status;
  }

  /**
   * Returns the code that every tool of Sterna prints; {@code sterna explain CODE} says more.
   *
   * @return for instance "E0505"
   */
  public @NotNull String getCode() {
    return code;
  }
}
