package android.graphics;

/** What is used of Android's class; compiled against, never shipped. */
public final class Bitmap {
  public static Bitmap createScaledBitmap(Bitmap source, int width, int height, boolean filter) {
    throw new UnsupportedOperationException();
  }

  public void getPixels(int[] pixels, int offset, int stride, int x, int y, int width, int height) {
    throw new UnsupportedOperationException();
  }
}
