package dev.sterna;

import java.io.File;
import java.io.FileFilter;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.security.MessageDigest;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashSet;
import java.util.Set;

/** Files by the SHA-256 of their contents, in a folder with a quota: whole ones by their hash, parts with ".part" behind it. */
final class RpcStore {
  private static final String PART = ".part";
  private static final FileFilter ONLY_FILES =
      new FileFilter() {
        @Override
        public boolean accept(File file) {
          return file.isFile();
        }
      };
  private static final Comparator<File> BY_AGE =
      new Comparator<File>() {
        @Override
        public int compare(File a, File b) {
          return Long.compare(a.lastModified(), b.lastModified());
        }
      };

  private final File folder;
  final long quota;

  RpcStore(File folder, long quota) {
    this.folder = folder;
    this.quota = quota;
  }

  static String hex(byte[] hash) {
    StringBuilder text = new StringBuilder();
    for (byte b : hash) text.append(Character.forDigit(b >> 4 & 15, 16)).append(Character.forDigit(b & 15, 16));
    return text.toString();
  }

  private File[] files() {
    File[] found = folder.listFiles(ONLY_FILES);
    return found == null ? new File[0] : found;
  }

  synchronized long used() {
    long sum = 0;
    for (File file : files()) sum += file.length();
    return sum;
  }

  /** Bytes that are held of a file; -1 - bytes of one that is whole. */
  synchronized long has(byte[] hash) {
    File whole = new File(folder, hex(hash));
    if (!whole.isFile()) return new File(folder, hex(hash) + PART).length();
    whole.setLastModified(System.currentTimeMillis());
    return -1 - whole.length();
  }

  /** Adds bytes; returns how many are held then. */
  synchronized long add(byte[] hash, long total, long offset, byte[] bytes, Set<String> kept) throws IOException {
    long held = has(hash);
    if (held < 0) return -1 - held;
    if (offset != held) throw new RpcRefusal(RpcRefusal.OFFSET, "PUT goes on at byte " + offset + "; the device holds " + held);
    if (total < 0 || offset > total || bytes.length > total - offset || (bytes.length == 0 && offset < total))
      throw new RpcRefusal(RpcRefusal.MALFORMED, "PUT has more bytes than the file, or none");
    Set<String> others = new HashSet<>(kept);
    others.add(hex(hash));
    makeRoom(total - offset, others, total);
    File part = new File(folder, hex(hash) + PART);
    try (OutputStream out = new FileOutputStream(part, true)) {
      out.write(bytes);
    }
    if (part.length() < total) return part.length();
    if (!MessageDigest.isEqual(digest(part), hash)) {
      part.delete();
      throw new RpcRefusal(RpcRefusal.HASH, "what was sent has another hash; it was dropped");
    }
    if (!part.renameTo(new File(folder, hex(hash)))) throw new IOException("a file that was sent cannot be kept");
    return total;
  }

  private void makeRoom(long bytes, Set<String> kept, long total) {
    File[] oldest = files();
    Arrays.sort(oldest, BY_AGE);
    for (File file : oldest) {
      if (bytes <= quota && used() <= quota - bytes) return;
      String name = file.getName();
      if (!kept.contains(name.endsWith(PART) ? name.substring(0, name.length() - PART.length()) : name)) file.delete();
    }
    if (bytes > quota || used() > quota - bytes)
      throw new RpcRefusal(RpcRefusal.FULL, "a file of " + total + " bytes does not fit: the quota is " + quota + ", in use " + used());
  }

  private static byte[] digest(File file) throws IOException {
    MessageDigest sha = RpcServer.sha256();
    byte[] block = new byte[1 << 16];
    try (InputStream in = new FileInputStream(file)) {
      for (int got; (got = in.read(block)) >= 0; ) sha.update(block, 0, got);
    }
    return sha.digest();
  }

  /** Copies a whole file to another place. */
  synchronized void copy(byte[] hash, File to) throws IOException {
    if (has(hash) >= 0) throw new RpcRefusal(RpcRefusal.MISSING, "the device does not have " + to.getName() + " in whole: HAVE, PUT, then LOAD");
    byte[] block = new byte[1 << 16];
    try (InputStream in = new FileInputStream(new File(folder, hex(hash)));
        OutputStream out = new FileOutputStream(to)) {
      for (int got; (got = in.read(block)) >= 0; ) out.write(block, 0, got);
    }
  }
}
