package dev.sterna

import java.io.File
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertNull
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test

/** As Kotlin programs use the jar; what can be null is known to the compiler, with warnings as errors. */
class KotlinTest {
  private val bundles = File(System.getProperty("sterna.bundles"))

  @Test
  fun runs() {
    val scores = Model.load(bundles.toPath().resolve("digits")).use { model ->
      val image: Tensor = model.inputs().first()
      val name: String = image.name()
      model.onNode { _, node, nanoseconds -> assertTrue(node.length > 0 && nanoseconds >= 0) }
      model.run(mapOf(name to FloatArray(image.elements()))).getValue(model.outputs().first().name()) as FloatArray
    }
    assertEquals(10, scores.size)
    Model.load(bundles.toPath().resolve("digits")).use { assertNull(it.inputs().first().quantization()) }
  }

  @Test
  fun nulls() {
    Model.load(bundles.toPath().resolve("quantized")).use { model ->
      val scale: Float? = model.inputs().first().quantization()?.scales()?.first()
      assertEquals(0.5f, scale)
      model.inputs().first().bind(null)
    }
  }

  @Test
  fun errors() {
    val error = assertThrows(SternaException::class.java) { Model.load(File("nowhere"), Options()) }
    assertEquals("E0503", error.code)
  }
}
