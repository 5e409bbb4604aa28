package dev.sterna;

import java.io.Closeable;
import java.io.File;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.List;
import org.jetbrains.annotations.NotNull;
import org.jetbrains.annotations.Nullable;

/**
 * Makes this process a device that runs bundles for others: {@code sterna run BUNDLE --on rpc://HOST:9190}. It speaks the
 * protocol of docs/rpc.md over plain sockets. An Android service starts it with a folder of its own:
 *
 * <pre>{@code
 * server = new RpcServer(new File(getCodeCacheDir(), "rpc")).token(token).start("0.0.0.0", 9190);
 * }</pre>
 *
 * <p>It runs code by design. On loopback anyone on this device may connect; on another address a token is demanded. Kernels run
 * in this process: one that crashes ends it, and one that never ends keeps the device busy. Give the service a
 * process of its own ({@code android:process=":sterna"}).
 */
public final class RpcServer implements Closeable {
  private static final int LEAST_TOKEN = 16;
  /** More clients than any user has, and fewer than this process may have files and threads. */
  private static final int MOST_CLIENTS = 32;
  private static final long PAUSE = 100;

  private final File folder;
  private final List<RpcSession> queue = new ArrayList<>();
  private int clients;
  private ServerSocket socket;
  RpcStore store;
  byte[] token;
  long quota = 4L << 30;
  int milliseconds = 60_000;
  int slow = 10_000;
  int idle = 300_000;

  /**
   * Makes a server that does not listen yet.
   *
   * @param folder for files that clients send; nobody else may write there
   */
  public RpcServer(@NotNull File folder) {
    this.folder = folder;
  }

  /**
   * Sets what clients have to know.
   *
   * @param token 16 bytes or more; null: on loopback, anyone may connect
   * @return this server
   */
  public @NotNull RpcServer token(@Nullable String token) {
    byte[] bytes = token == null ? null : token.getBytes(StandardCharsets.UTF_8);
    if (bytes != null && bytes.length < LEAST_TOKEN) throw SternaException.argument("the token has less than " + LEAST_TOKEN + " bytes");
    this.token = bytes;
    return this;
  }

  /**
   * Sets what the files of clients may take.
   *
   * @param bytes 4 GiB if it is not set
   * @return this server
   */
  public @NotNull RpcServer quota(long bytes) {
    quota = bytes;
    return this;
  }

  /**
   * Sets what a request may take.
   *
   * @param milliseconds 60,000 if it is not set
   * @return this server
   */
  public @NotNull RpcServer limit(int milliseconds) {
    this.milliseconds = milliseconds;
    return this;
  }

  /**
   * Listens, in threads of its own.
   *
   * @param host the address to listen on; null: loopback
   * @param port 0 for any
   * @return this server
   * @throws IOException the port is taken, or the folder cannot be made
   */
  public @NotNull RpcServer start(@Nullable String host, int port) throws IOException {
    InetAddress address = host == null ? InetAddress.getLoopbackAddress() : InetAddress.getByName(host);
    if (!address.isLoopbackAddress() && token == null) throw SternaException.argument("a device that others reach demands a token");
    if (!folder.isDirectory() && !folder.mkdirs()) throw new IOException(folder + " cannot be made");
    store = new RpcStore(folder, quota);
    socket = new ServerSocket(port, 16, address);
    Runnable accepts =
        new Runnable() {
          @Override
          public void run() {
            accept();
          }
        };
    thread("sterna-rpc", accepts);
    return this;
  }

  /**
   * Returns the port that is listened on.
   *
   * @return its number
   */
  public int port() {
    return socket.getLocalPort();
  }

  /** Listens no more; connections end with their clients. */
  @Override
  public void close() throws IOException {
    if (socket != null) socket.close();
  }

  private void accept() {
    while (!socket.isClosed()) {
      try {
        Socket client = socket.accept();
        if (comes()) thread("sterna-rpc-client", new RpcSession(this, client));
        else client.close(); // one that is refused so tries again later
      } catch (IOException closed) {
        rest(); // unless it was closed here, the system has no file left for a client, and soon has one again
      }
    }
  }

  private static void rest() {
    try {
      Thread.sleep(PAUSE);
    } catch (InterruptedException nobody) {
      Thread.currentThread().interrupt();
    }
  }

  private synchronized boolean comes() {
    if (clients == MOST_CLIENTS) return false;
    clients++;
    return true;
  }

  /** A client's connection has ended. */
  synchronized void goes() {
    clients--;
  }

  static void thread(String name, Runnable work) {
    Thread thread = new Thread(work, name);
    thread.setDaemon(true);
    thread.start();
  }

  static MessageDigest sha256() {
    try {
      return MessageDigest.getInstance("SHA-256");
    } catch (NoSuchAlgorithmException impossible) {
      throw new AssertionError(impossible);
    }
  }

  /** A folder for a model's files. */
  File newModel() throws IOException {
    File place = File.createTempFile("model", "", folder);
    if (!place.delete() || !place.mkdir()) throw new IOException("a folder for the model cannot be made");
    return place;
  }

  // ---- Whose turn it is ----

  synchronized int waiting() {
    return Math.max(0, queue.size() - 1);
  }

  synchronized boolean busy() {
    return !queue.isEmpty();
  }

  synchronized int enter(RpcSession client) {
    if (!queue.contains(client)) queue.add(client);
    return queue.indexOf(client);
  }

  /** The position once it is another one, or the time is over. */
  synchronized int moved(RpcSession client, int before, long until) throws InterruptedException {
    for (long left; queue.indexOf(client) == before && (left = until - System.currentTimeMillis()) > 0; ) wait(left);
    return queue.indexOf(client);
  }

  synchronized void leave(RpcSession client) {
    queue.remove(client);
    notifyAll();
  }
}
