/**
 * Strokes of a pen, as lists of [x, y] with y downwards, made into what the network of the digits was trained on
 * (examples/digits/strokes.py does the same; a test compares them).
 *
 * @typedef {[number, number][]} Stroke
 */

export const SIDE = 8;
/** In pixels: the bitmap, a block of it, how wide digits may be, the pen. */
const [BITMAP, BLOCK, WIDTH, RADIUS] = [32, 4, 28, 2];

/**
 * A drawing in 8 by 8 numbers from 0 to 1; undefined for an empty one. The network's digits were scanned into 32 by 32
 * black and white pixels, fitted into a box and counted in blocks of 4 by 4. So are these: wherever and however large a
 * drawing is, it fills the box, and the same round pen is drawn along its strokes, whatever the pen on the paper was.
 *
 * @param {Stroke[]} strokes
 */
export function seen(strokes) {
  const points = strokes.flat();
  if (!points.length) return undefined;
  const [x, y] = [0, 1].map((axis) => range(points.map((point) => point[axis])));
  const scale = Math.min((WIDTH - 2 * RADIUS) / Math.max(x.size, 1e-9), (BITMAP - 2 * RADIUS) / Math.max(y.size, 1e-9));
  const placed = (/** @type {[number, number]} */ [u, v]) => [
    (u - x.low - x.size / 2) * scale + BITMAP / 2,
    (v - y.low - y.size / 2) * scale + BITMAP / 2,
  ];
  const image = new Float32Array(SIDE * SIDE);
  const ink = new Uint8Array(BITMAP * BITMAP);
  for (const stroke of strokes) stroke.forEach((point, n) => draw(ink, placed(stroke[Math.max(0, n - 1)]), placed(point)));
  ink.forEach((on, n) => (image[SIDE * Math.floor(n / BITMAP / BLOCK) + Math.floor((n % BITMAP) / BLOCK)] += on / BLOCK ** 2));
  return image;
}

/** @param {number[]} values */
function range(values) {
  const low = values.reduce((a, b) => Math.min(a, b));
  return { low, size: values.reduce((a, b) => Math.max(a, b)) - low };
}

/**
 * Blackens the pixels whose middle a round pen covers on its way from a to b.
 *
 * @param {Uint8Array} ink
 * @param {number[]} a
 * @param {number[]} b
 */
function draw(ink, a, b) {
  const along = [b[0] - a[0], b[1] - a[1]];
  const square = along[0] ** 2 + along[1] ** 2 || 1;
  const reach = (/** @type {number} */ axis) => [
    Math.max(0, Math.floor(Math.min(a[axis], b[axis]) - RADIUS)),
    Math.min(BITMAP, Math.ceil(Math.max(a[axis], b[axis]) + RADIUS)),
  ];
  const [[left, right], [top, bottom]] = [reach(0), reach(1)];
  for (let y = top; y < bottom; y++)
    for (let x = left; x < right; x++) {
      const away = [x + 0.5 - a[0], y + 0.5 - a[1]];
      const part = Math.min(1, Math.max(0, (away[0] * along[0] + away[1] * along[1]) / square));
      if ((away[0] - part * along[0]) ** 2 + (away[1] - part * along[1]) ** 2 <= RADIUS ** 2) ink[y * BITMAP + x] = 1;
    }
}
