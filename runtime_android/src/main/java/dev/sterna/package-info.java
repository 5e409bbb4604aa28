/**
 * Runs models that Sterna compiled, on Android and on desktops.
 *
 * <p>{@link dev.sterna.Model} is the whole of it; {@link dev.sterna.Assets} loads models that are part of an Android app.
 */
package dev.sterna;
