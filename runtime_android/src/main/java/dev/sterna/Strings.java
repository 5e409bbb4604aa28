package dev.sterna;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** The numbers of the strings that a model knows. A string that it does not know has a number behind them for one run. */
final class Strings {
  static final String FILE = "strings.json";

  private final List<String> words = new ArrayList<>();
  private final Map<String, Integer> numbers = new HashMap<>();
  private final int known;
  final List<?> inputs;
  final List<?> outputs;

  private Strings(Map<?, ?> table) {
    for (Object word : (List<?>) table.get("strings")) number((String) word);
    known = words.size();
    inputs = (List<?>) table.get("inputs");
    outputs = (List<?>) table.get("outputs");
  }

  /** Whether a model has strings. */
  static boolean in(Map<?, ?> graph) {
    return graph.get("files") instanceof Map && ((Map<?, ?>) graph.get("files")).containsKey(FILE);
  }

  /** The table, once its size and hash are those in graph.json. */
  static Strings of(Map<?, ?> graph, ByteBuffer data) {
    try {
      Map<?, ?> entry = (Map<?, ?>) ((Map<?, ?>) graph.get("files")).get(FILE);
      boolean same = ((Number) entry.get("bytes")).longValue() == data.remaining();
      if (same && entry.get("hash").equals(String.format("%016x", Natives.hash(data, data.position(), data.remaining()))))
        return new Strings(Json.object(FILE, data));
    } catch (ClassCastException | NullPointerException wrong) {
      // said below
    }
    throw SternaException.of(SternaException.DAMAGED, FILE + ": is not what was written when the model was compiled");
  }

  /** Strings that are not known have no number any more. */
  void forget() {
    while (words.size() > known) numbers.remove(words.remove(words.size() - 1));
  }

  long number(String word) {
    Integer found = numbers.get(word);
    if (found != null) return found;
    if (word == null) throw SternaException.argument("an element of an input of strings is null");
    numbers.put(word, words.size());
    words.add(word);
    return words.size() - 1;
  }

  String word(long number) {
    return number >= 0 && number < words.size() ? words.get((int) number) : "";
  }
}
