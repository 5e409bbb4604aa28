package dev.sterna;

import java.io.EOFException;
import java.io.File;
import java.io.IOException;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/** One client of a device: docs/rpc.md, from HELLO to BYE. */
final class RpcSession implements Runnable {
  private static final int HELLO = 1, PROOF = 2, TURN = 3, STATUS = 4, HAS = 5, HAVE = 6, PUT = 7, LOAD = 8, UNLOAD = 9, TABLE = 10;
  private static final int SET = 11, DIMS = 12, RUN = 13, TIME = 14, PROFILE = 15, RESET = 16, GET = 17, VALUE = 18, LIMIT = 19, BYE = 20;
  private static final int VERSION = 1, HEAD = 12, REPLY = 0x8000, ERROR = 0xffff, NONCE = 32, HASH = 32;
  private static final int CHUNK = 1 << 20, MOST_FILES = 256, MOST_DIMS = 64, MOST_RUNS = 100_000, MOST_MESSAGE = 251;
  /** Bytes a second that a frame has to come with; milliseconds between looks at the time. */
  private static final int SLOWEST = 4096, LOOK = 100;
  /** Of a request's payload, by its kind. SET has those of the largest input besides. */
  private static final int[] BOUNDS = {
    -1, 256, 32, 4, 0, 256, 4 + MOST_FILES * HASH, CHUNK + 48, 1 << 16, 0, 4, 4, 4 + 8 * MOST_DIMS, 0, 24, 0, 0, 4, 4, 4, 0,
  };
  private static final int NEW = 0, CHALLENGED = 1, KNOWN = 2, FIRST = 3;
  private static final Pattern NAME = Pattern.compile("[A-Za-z0-9_][A-Za-z0-9_.-]{0,126}");

  private final RpcServer server;
  private final Socket socket;
  private final Set<String> kept = new HashSet<>();
  private final long opened = System.currentTimeMillis();
  private int state = NEW;
  private byte[] clientNonce = new byte[NONCE];
  private final byte[] serverNonce = new byte[NONCE];
  private int limit;
  private Model model;
  private long largest;
  /** When the request under way is too late; 0 while there is none. */
  private volatile long late;
  private volatile int latest;

  RpcSession(RpcServer server, Socket socket) {
    this.server = server;
    this.socket = socket;
    limit = server.milliseconds;
  }

  @Override
  public void run() {
    try (Socket open = socket) {
      open.setTcpNoDelay(true);
      open.setSoTimeout(LOOK);
      RpcServer.thread("sterna-rpc-watch", watch);
      serve();
    } catch (IOException gone) {
      // nobody is there to be told
    } finally {
      unload();
      server.leave(this);
      server.goes();
    }
  }

  /** Answers until the client leaves, or is told why it is hung up on. */
  private void serve() throws IOException {
    try {
      while (frame()) {}
    } catch (RpcRefusal refused) {
      fail(0, refused.status, refused.getMessage());
    }
  }

  /** Tells the client where a kernel does not return, and hangs up. Nothing in this process can end the kernel. */
  private final Runnable watch =
      new Runnable() {
        @Override
        public void run() {
          try {
            for (; !socket.isClosed(); Thread.sleep(LOOK)) {
              long end = late;
              if (end == 0 || System.currentTimeMillis() < end + LOOK) continue;
              fail(latest, RpcRefusal.HUNG, "the request took longer than " + limit + " ms; the kernel still runs");
              socket.close();
            }
          } catch (InterruptedException | IOException ended) {
            // so is this thread
          }
        }
      };

  // ---- Frames ----

  private byte[] read(int count, boolean begun) throws IOException {
    byte[] bytes = new byte[count];
    long start = System.currentTimeMillis(), heard = start;
    for (int done = 0; done < count; ) {
      int got = 0;
      try {
        got = socket.getInputStream().read(bytes, done, count - done);
      } catch (SocketTimeoutException silent) {
        // looks at the time below
      }
      if (got < 0) throw new EOFException();
      long now = System.currentTimeMillis();
      if (got > 0) {
        heard = now;
        if (done == 0 && !begun) start = now;
        done += got;
        continue;
      }
      boolean inside = begun || done > 0;
      boolean tooSlow = inside && (now - heard >= server.slow || now - start >= server.slow + count * 1000L / SLOWEST);
      if (tooSlow || (state < KNOWN && now - opened >= server.slow))
        throw new RpcRefusal(RpcRefusal.SLOW, "a frame began and did not end in time");
      if (!inside && server.waiting() > 0 && now - start >= server.idle)
        throw new RpcRefusal(RpcRefusal.IDLE, "there was no request for long, and others wait");
    }
    return bytes;
  }

  private boolean frame() throws IOException {
    ByteBuffer head = ByteBuffer.wrap(read(HEAD, false)).order(ByteOrder.LITTLE_ENDIAN);
    long length = head.getInt() & 0xffffffffL;
    int version = head.getShort() & 0xffff, kind = head.getShort() & 0xffff, id = head.getInt();
    latest = id;
    try {
      long most = kind < BOUNDS.length ? BOUNDS[kind] + (kind == SET ? largest : 0) : -1;
      if (version != VERSION) throw new RpcRefusal(RpcRefusal.VERSION, "this server speaks version 1 of the protocol", true);
      if (state < KNOWN && kind != HELLO && kind != PROOF) throw new RpcRefusal(RpcRefusal.STATE, "HELLO, then PROOF come first", true);
      if (most < 0) throw new RpcRefusal(RpcRefusal.UNKNOWN, "no request has that kind", length > 0);
      if (length > most) throw new RpcRefusal(RpcRefusal.TOO_LARGE, "the frame is longer than its kind may be", true);
      byte[] payload = read((int) length, true);
      reply(kind | REPLY, id, answer(kind, id, ByteBuffer.wrap(payload).order(ByteOrder.LITTLE_ENDIAN)));
      return kind != BYE;
    } catch (RpcRefusal refused) {
      if (refused.status == RpcRefusal.SLOW || refused.status == RpcRefusal.IDLE) throw refused;
      fail(id, refused.status, refused.getMessage());
      return !refused.closes;
    } catch (SternaException wrong) {
      fail(id, wrong.getStatus(), wrong.getMessage().replaceFirst("^E\\d{4}: ", ""));
    } catch (BufferUnderflowException | IllegalArgumentException wrong) {
      fail(id, RpcRefusal.MALFORMED, "a request has other bytes than its kind has");
      return kind != HELLO;
    } catch (OutOfMemoryError full) {
      fail(id, -2, "the device has no memory for that");
    }
    return true;
  }

  private synchronized void reply(int kind, int id, byte[] payload) throws IOException {
    ByteBuffer frame = ByteBuffer.allocate(HEAD + payload.length).order(ByteOrder.LITTLE_ENDIAN);
    frame.putInt(payload.length).putShort((short) VERSION).putShort((short) kind).putInt(id).put(payload);
    socket.getOutputStream().write(frame.array());
  }

  private void fail(int id, int status, String message) {
    byte[] text = message.getBytes(StandardCharsets.UTF_8);
    text = Arrays.copyOf(text, Math.min(text.length, MOST_MESSAGE));
    try {
      reply(ERROR, id, new RpcWriter().u32(status).u32(text.length).bytes(text).made());
    } catch (IOException gone) {
      // nobody is there to be told
    }
  }

  // ---- Requests ----

  private byte[] answer(int kind, int id, ByteBuffer asked) throws IOException {
    if (kind == HELLO) return hello(asked);
    if (kind == PROOF) return proof(asked);
    boolean any = kind == STATUS || kind == HAS || kind == TURN || kind == BYE;
    boolean files = kind == HAVE || kind == PUT || kind == LOAD || kind == LIMIT;
    if (!any && state < FIRST) throw new RpcRefusal(RpcRefusal.STATE, "TURN comes first");
    if (!any && !files && model == null) throw new RpcRefusal(RpcRefusal.STATE, "no model is loaded");
    switch (kind) {
      case STATUS:
        return status().getBytes(StandardCharsets.UTF_8);
      case HAS:
        byte[] feature = bytes(asked, asked.getInt());
        end(asked);
        return new RpcWriter().u32(Natives.cpuHas(feature)).made();
      case TURN:
        int wait = asked.getInt();
        end(asked);
        return turn(id, wait & 0xffffffffL);
      case HAVE:
        return have(asked);
      case PUT:
        byte[] hash = bytes(asked, HASH);
        long total = asked.getLong(), offset = asked.getLong();
        long held = server.store.add(hash, total, offset, bytes(asked, asked.remaining()), kept);
        kept.add(RpcStore.hex(hash));
        return new RpcWriter().u64(held).made();
      case LOAD:
        load(asked);
        return new byte[0];
      case UNLOAD:
        unload();
        return new byte[0];
      case LIMIT:
        long wanted = asked.getInt() & 0xffffffffL;
        end(asked);
        if (wanted > server.milliseconds) throw new RpcRefusal(RpcRefusal.MALFORMED, "LIMIT is above the most that the server allows");
        limit = wanted == 0 ? server.milliseconds : (int) wanted;
        return new byte[0];
      case BYE:
        return new byte[0];
      default:
        late = System.currentTimeMillis() + limit;
        try {
          return ask(kind, asked);
        } finally {
          late = 0;
        }
    }
  }

  private static byte[] bytes(ByteBuffer from, int count) {
    if (count < 0 || count > from.remaining()) throw new BufferUnderflowException();
    byte[] bytes = new byte[count];
    from.get(bytes);
    return bytes;
  }

  private static void end(ByteBuffer asked) {
    if (asked.hasRemaining()) throw new BufferUnderflowException();
  }

  private byte[] hello(ByteBuffer asked) {
    if (state != NEW) throw new RpcRefusal(RpcRefusal.STATE, "HELLO comes once", true);
    clientNonce = bytes(asked, NONCE);
    bytes(asked, asked.getInt());
    end(asked);
    new SecureRandom().nextBytes(serverNonce);
    state = server.token == null ? KNOWN : CHALLENGED;
    return new RpcWriter().u32(server.token == null ? 0 : 1).bytes(serverNonce).made();
  }

  private byte[] proof(ByteBuffer asked) {
    if (state != CHALLENGED) throw new RpcRefusal(RpcRefusal.STATE, "PROOF follows HELLO, where a token is demanded", true);
    byte[] given = bytes(asked, asked.remaining());
    if (!MessageDigest.isEqual(given, hmac("client", serverNonce, clientNonce))) {
      try {
        Thread.sleep(250);
      } catch (InterruptedException ended) {
        Thread.currentThread().interrupt();
      }
      throw new RpcRefusal(RpcRefusal.DENIED, "the token is not the device's", true);
    }
    state = KNOWN;
    return hmac("server", clientNonce, serverNonce);
  }

  private byte[] hmac(String side, byte[] first, byte[] second) {
    try {
      Mac mac = Mac.getInstance("HmacSHA256");
      mac.init(new SecretKeySpec(server.token, "HmacSHA256"));
      mac.update(("sterna-rpc " + side).getBytes(StandardCharsets.US_ASCII));
      mac.update(first);
      return mac.doFinal(second);
    } catch (GeneralSecurityException impossible) {
      throw new AssertionError(impossible);
    }
  }

  private byte[] turn(int id, long milliseconds) throws IOException {
    try {
      long until = System.currentTimeMillis() + milliseconds;
      for (int position = state == KNOWN ? server.enter(this) : 0; position > 0; ) {
        reply(TURN | REPLY, id, new RpcWriter().u32(position).made());
        int next = server.moved(this, position, until);
        if (next == position) {
          server.leave(this);
          throw new RpcRefusal(RpcRefusal.BUSY, "another client uses the device, and its turn did not end in time");
        }
        position = next;
      }
    } catch (InterruptedException ended) {
      throw new IOException(ended);
    }
    state = FIRST;
    return new byte[4];
  }

  private String status() {
    Runtime runtime = Runtime.getRuntime();
    String text = "{\"sterna\": \"%s\", \"end\": \"java\", \"protocol\": [1, 1], \"machine\": %s, \"system\": %s, \"release\": %s, \"cores\": %d, "
        + "\"scratch\": {\"used\": %d, \"quota\": %d, \"free\": %d}, \"queue\": %d, \"busy\": %b, \"limits\": {\"milliseconds\": %d}}";
    long used = server.store.used();
    return String.format(
        Locale.ROOT, text, Model.version(), quoted(Desktop.machine()), property("os.name"), property("os.version"), runtime.availableProcessors(),
        used, server.quota, Math.max(0, server.quota - used), server.waiting(), server.busy(), server.milliseconds);
  }

  private static String property(String name) {
    return quoted(System.getProperty(name, ""));
  }

  private static String quoted(String text) {
    return '"' + text.replaceAll("[^ -~]|[\"\\\\]", "?") + '"';
  }

  private byte[] have(ByteBuffer asked) {
    int count = asked.getInt();
    if (count <= 0 || count > MOST_FILES || asked.remaining() != count * HASH) throw new BufferUnderflowException();
    RpcWriter to = new RpcWriter().u32(count);
    for (int i = 0; i < count; i++) {
      long held = server.store.has(bytes(asked, HASH));
      to.u64(held < 0 ? -1 - held : held).u32(held < 0 ? 1 : 0);
    }
    return to.made();
  }

  // ---- The model ----

  private void load(ByteBuffer asked) throws IOException {
    unload();
    int threads = asked.getInt(), count = asked.getInt();
    if (count <= 0 || count > MOST_FILES || threads < 0 || threads > 1024) throw new BufferUnderflowException();
    Map<String, byte[]> files = new LinkedHashMap<>();
    for (int i = 0; i < count; i++) {
      String name = new String(bytes(asked, asked.getInt()), StandardCharsets.UTF_8);
      byte[] hash = bytes(asked, HASH);
      if (!NAME.matcher(name).matches() || files.put(name, hash) != null)
        throw new RpcRefusal(RpcRefusal.MALFORMED, "LOAD has a name that is none, or one twice");
    }
    end(asked);
    File place = server.newModel();
    try {
      for (Map.Entry<String, byte[]> file : files.entrySet()) {
        server.store.copy(file.getValue(), new File(place, file.getKey()));
        kept.add(RpcStore.hex(file.getValue()));
      }
      model = Model.load(place, new Options().threads(Math.max(1, threads)));
      for (Tensor input : model.inputs()) largest = Math.max(largest, input.buffer().remaining());
    } finally {
      File[] copies = place.listFiles(); // what was loaded from them is mapped
      if (copies != null) for (File copy : copies) copy.delete();
      place.delete();
    }
  }

  private void unload() {
    if (model != null) model.close();
    model = null;
    largest = 0;
  }

  private byte[] ask(int kind, ByteBuffer asked) {
    if (kind == SET) return set(asked);
    if (kind == DIMS) return dims(asked);
    if (kind == TIME) return time(asked);
    int number = kind == TABLE || kind == GET || kind == VALUE ? asked.getInt() : 0;
    end(asked);
    RpcWriter to = new RpcWriter();
    if (kind == TABLE) return RpcTables.table(model, number);
    if (kind == RUN) return to.u64(timed()).made();
    if (kind == RESET) model.resetState();
    if (kind == PROFILE) {
      List<NodeTime> nodes = model.profile(1);
      for (int i = 0; i < nodes.size(); i++) to.u32(i).u64(nodes.get(i).nanoseconds);
    }
    if (kind == VALUE) throw new RpcRefusal(RpcRefusal.UNSUPPORTED, "this end shows inputs and outputs, and no tensors between");
    if (kind == GET) {
      if (number < 0 || number >= model.outputs().size()) throw SternaException.argument("the model has no output of that number");
      ByteBuffer memory = model.outputs().get(number).buffer();
      return bytes(memory, memory.remaining());
    }
    return to.made();
  }

  private byte[] set(ByteBuffer asked) {
    int number = asked.getInt();
    List<Tensor> inputs = model.inputs();
    ByteBuffer memory = number < 0 || number >= inputs.size() ? null : inputs.get(number).buffer();
    if (memory == null || memory.remaining() != asked.remaining()) throw new RpcRefusal(RpcRefusal.MALFORMED, "SET has not the bytes of an input");
    memory.put(asked);
    return new byte[0];
  }

  private byte[] dims(ByteBuffer asked) {
    int count = asked.getInt();
    if (count < 0 || count > MOST_DIMS || asked.remaining() != 8 * count) throw new BufferUnderflowException();
    List<String> open = new ArrayList<>();
    for (Dim dim : model.dims()) if (!dim.computed) open.add(dim.name);
    if (open.size() != count) throw SternaException.argument("the model has " + open.size() + " open dimensions, not " + count);
    Map<String, Long> sizes = new LinkedHashMap<>();
    for (String name : open) sizes.put(name, asked.getLong());
    model.setDims(sizes);
    return new byte[0];
  }

  private long timed() {
    long start = System.nanoTime();
    model.run();
    return System.nanoTime() - start;
  }

  private void inTime() {
    if (System.currentTimeMillis() <= late) return;
    unload();
    throw new RpcRefusal(RpcRefusal.HUNG, "the request took longer than " + limit + " ms, and was ended");
  }

  private byte[] time(ByteBuffer asked) {
    long warmUp = asked.getInt() & 0xffffffffL, least = asked.getInt() & 0xffffffffL, most = asked.getInt() & 0xffffffffL;
    asked.getInt();
    long nanoseconds = asked.getLong(), sum = 0;
    long enough = nanoseconds < 0 ? Long.MAX_VALUE : nanoseconds; // of 64 bits without a sign
    end(asked);
    if (most == 0 || most > MOST_RUNS || least > most || warmUp > MOST_RUNS) throw new BufferUnderflowException();
    for (long i = 0; i < warmUp; i++, inTime()) model.run();
    long[] samples = new long[(int) most];
    int count = 0;
    for (; count < most && (count < Math.max(1, least) || sum < enough); inTime()) sum += samples[count++] = timed();
    int none = Integer.MIN_VALUE;
    RpcWriter to = new RpcWriter().u32(count).u32(0).u32(0).u32(none).u32(none).u32(-1).u32(-1).u64(0);
    for (int i = 0; i < count; i++) to.u64(samples[i]);
    return to.made();
  }
}
