package android.content.res;

/** What is used of Android's class; compiled against, never shipped. */
public final class AssetManager {
  public java.io.InputStream open(String file) throws java.io.IOException {
    throw new UnsupportedOperationException();
  }

  public AssetFileDescriptor openFd(String file) throws java.io.IOException {
    throw new UnsupportedOperationException();
  }
}
