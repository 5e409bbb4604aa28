package dev.sterna.app;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import android.content.Context;
import android.content.res.AssetFileDescriptor;
import android.content.res.AssetManager;
import android.graphics.Bitmap;
import dev.sterna.Assets;
import dev.sterna.DType;
import dev.sterna.Model;
import dev.sterna.SternaException;
import dev.sterna.Tensor;
import java.io.File;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.Test;
import org.junit.runner.RunWith;
import org.robolectric.RobolectricTestRunner;
import org.robolectric.RuntimeEnvironment;
import org.robolectric.annotation.Config;
import org.robolectric.annotation.GraphicsMode;

/** A model's library on Android's own framework: its files in an app, and pictures. */
@RunWith(RobolectricTestRunner.class)
@Config(sdk = 35)
@GraphicsMode(GraphicsMode.Mode.NATIVE)
public class LibraryTest {
  private static final String MODEL = System.getProperty("app.model");
  private static final String WEIGHTS = "sterna/" + MODEL + "/params.bin.jet";
  private static final Path RECORDED = Path.of(System.getProperty("app.recorded"));

  @Test
  public void weightsAreMappedFromTheApp() throws Exception {
    long offset = offset(assets("app.apk"));
    assertTrue("at " + offset, offset > 0 && offset % 64 == 0);
    computes(assets("app.apk"));
    computes(RuntimeEnvironment.getApplication().getAssets());
  }

  @Test
  public void weightsLieAnywhere() throws Exception {
    long offset = offset(assets("elsewhere.apk"));
    assertTrue("at " + offset, offset % 64 != 0);
    computes(assets("elsewhere.apk"));
  }

  @Test
  public void weightsMayBeCompressed() throws Exception {
    AssetManager assets = assets("compressed.apk");
    assertThrows(FileNotFoundException.class, () -> assets.openFd(WEIGHTS));
    computes(assets);
  }

  @Test
  public void whatIsMissingIsNamed() throws Exception {
    AssetManager assets = assets("app.apk");
    IOException missing = assertThrows(IOException.class, () -> Assets.load(assets, "no_such"));
    assertTrue(missing.toString(), missing.getMessage().contains("sterna/no_such/graph-"));
    AssetManager without = assets("without.apk");
    missing = assertThrows(IOException.class, () -> Assets.load(without, MODEL));
    assertTrue(missing.toString(), missing.getMessage().contains(WEIGHTS));
    AssetManager other = assets("other.apk"); // another model's weights
    SternaException wrong = assertThrows(SternaException.class, () -> Assets.load(other, MODEL));
    assertEquals("E0505", wrong.getCode());
  }

  /** Of every input that takes pictures: red, green and blue where the model expects them. */
  @Test
  public void picturesAreGivenAsTheModelWantsThem() throws Exception {
    Class<?> type = Class.forName(System.getProperty("app.type"));
    int found = 0;
    Object model = type.getMethod("load", Context.class).invoke(null, RuntimeEnvironment.getApplication());
    try (AutoCloseable closed = (AutoCloseable) model) {
      for (Method method : type.getMethods()) {
        Class<?>[] takes = method.getParameterTypes();
        if (takes.length == 0 || takes[0] != Bitmap.class) continue;
        found++;
        Tensor input = (Tensor) type.getMethod(method.getName() + "Tensor").invoke(model);
        float[] mean = {10, 20, 30}, deviation = {2, 3, 4};
        boolean says = takes.length == 1;
        if (says && input.type() != DType.UINT8) {
          recorded("mean", input.name()).asFloatBuffer().get(mean);
          recorded("std", input.name()).asFloatBuffer().get(deviation);
        }
        Bitmap picture = picture(input);
        for (int times = 1; times <= 2; times++) {
          // twice as large is made smaller: every pixel is four of one colour
          Bitmap given = Bitmap.createScaledBitmap(picture, times * picture.getWidth(), times * picture.getHeight(), false);
          if (says) method.invoke(model, given);
          else method.invoke(model, given, mean, deviation);
          check(input, picture, mean, deviation);
        }
      }
    }
    assertEquals(Inputs.INSTANCE.getPictures().size(), found);
  }

  private static Bitmap picture(Tensor input) {
    long[] sizes = input.shape();
    boolean last = sizes[3] == 3;
    int height = (int) sizes[last ? 1 : 2], width = (int) sizes[last ? 2 : 3];
    Bitmap picture = Bitmap.createBitmap(width, height, Bitmap.Config.ARGB_8888);
    for (int y = 0; y < height; y++) for (int x = 0; x < width; x++) picture.setPixel(x, y, 0xff000000 | (x * 7919 + y * 104729) & 0xffffff);
    return picture;
  }

  private static void check(Tensor input, Bitmap picture, float[] mean, float[] deviation) {
    int width = picture.getWidth(), height = picture.getHeight();
    boolean last = input.shape()[3] == 3;
    ByteBuffer elements = input.buffer();
    for (int c = 0; c < 3; c++)
      for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++) {
          int colour = picture.getPixel(x, y) >> (16 - 8 * c) & 0xff;
          int at = last ? (y * width + x) * 3 + c : (c * height + y) * width + x;
          float real = (colour - mean[c]) / deviation[c];
          if (input.type() == DType.UINT8) assertEquals(colour, elements.get(at) & 0xff);
          else if (input.type() == DType.INT8) assertEquals(Math.max(-128, Math.min(127, input.quantization().quantized(real))), elements.get(at));
          else assertEquals(real, elements.getFloat(4 * at), 0);
        }
  }

  private static AssetManager assets(String app) throws Exception {
    AssetManager assets = AssetManager.class.getConstructor().newInstance();
    Method add = AssetManager.class.getMethod("addAssetPath", String.class);
    assertFalse(app, add.invoke(assets, new File(System.getProperty("app.folder"), app).getPath()).equals(0));
    return assets;
  }

  private static long offset(AssetManager assets) throws IOException {
    try (AssetFileDescriptor weights = assets.openFd(WEIGHTS)) {
      return weights.getStartOffset();
    }
  }

  /** Loads the model, and runs it on what was recorded. */
  private static void computes(AssetManager assets) throws IOException {
    try (Model model = Assets.load(assets, MODEL)) {
      for (Tensor input : model.inputs()) if (input.type() != DType.STRING) input.buffer().put(recorded("input", input.name()));
      model.run();
      for (Tensor output : model.outputs()) if (output.type() != DType.STRING) compare(output, recorded("output", output.name()));
    }
  }

  private static ByteBuffer recorded(String side, String name) throws IOException {
    return ByteBuffer.wrap(Files.readAllBytes(RECORDED.resolve(side + "-" + name.replace('/', '_')))).order(ByteOrder.LITTLE_ENDIAN);
  }

  private static void compare(Tensor output, ByteBuffer wanted) {
    ByteBuffer got = output.buffer();
    assertEquals(wanted.remaining(), got.remaining());
    if (output.type() != DType.FLOAT32) {
      assertEquals(wanted, got);
      return;
    }
    float largest = 0;
    for (int i = 0; i < wanted.remaining(); i += 4) largest = Math.max(largest, Math.abs(wanted.getFloat(i)));
    for (int i = 0; i < wanted.remaining(); i += 4) assertEquals(wanted.getFloat(i), got.getFloat(i), 1e-5f * largest);
  }
}
