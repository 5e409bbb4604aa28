package dev.sterna;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Reads JSON: of the C runtime's files the few things that it does not hand out. Objects are maps, arrays lists, numbers doubles. */
final class Json {
  private static final int DEEPEST = 32;
  private final String text;
  private int at;

  private Json(String text) {
    this.text = text;
  }

  static String text(byte[] utf8) {
    return new String(utf8, StandardCharsets.UTF_8);
  }

  /** @throws SternaException MALFORMED, naming the file */
  static Map<?, ?> object(String file, ByteBuffer data) {
    try {
      byte[] bytes = new byte[data.remaining()];
      data.duplicate().get(bytes);
      Json json = new Json(text(bytes));
      Map<?, ?> result = (Map<?, ?>) json.value(0);
      json.space();
      if (json.at == json.text.length()) return result;
    } catch (ClassCastException | IndexOutOfBoundsException | NumberFormatException wrong) {
      // said below
    }
    throw SternaException.of(SternaException.MALFORMED, file + ": is no JSON object");
  }

  private Object value(int depth) {
    if (depth > DEEPEST) throw new IndexOutOfBoundsException();
    space();
    switch (text.charAt(at)) {
      case '{': {
        Map<String, Object> members = new LinkedHashMap<>();
        for (at++; next('}', members.isEmpty()); ) {
          space();
          String name = string();
          expect(':');
          members.put(name, value(depth + 1));
        }
        return members;
      }
      case '[': {
        List<Object> elements = new ArrayList<>();
        for (at++; next(']', elements.isEmpty()); ) elements.add(value(depth + 1));
        return elements;
      }
      case '"':
        return string();
      default:
        int from = at;
        while (at < text.length() && ",]} \t\r\n".indexOf(text.charAt(at)) < 0) at++;
        String word = text.substring(from, at);
        if (word.equals("true") || word.equals("false")) return word.equals("true");
        return word.equals("null") ? null : (Object) Double.valueOf(word);
    }
  }

  /** Whether an element follows; else the end has been passed. */
  private boolean next(char end, boolean first) {
    space();
    if (text.charAt(at) == end) {
      at++;
      return false;
    }
    if (!first) expect(',');
    return true;
  }

  private void space() {
    while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) at++;
  }

  private void expect(char c) {
    space();
    if (text.charAt(at++) != c) throw new IndexOutOfBoundsException();
  }

  private String string() {
    expect('"');
    StringBuilder out = new StringBuilder();
    for (; text.charAt(at) != '"'; at++) {
      char c = text.charAt(at);
      if (c == '\\') {
        c = text.charAt(++at);
        int plain = "\"\\/bfnrt".indexOf(c);
        if (c == 'u') {
          c = (char) Integer.parseInt(text.substring(at + 1, at + 5), 16);
          at += 4;
        } else {
          c = "\"\\/\b\f\n\r\t".charAt(plain);
        }
      }
      out.append(c);
    }
    at++;
    return out.toString();
  }
}
