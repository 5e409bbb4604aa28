import { Model } from "sterna/worker";

/** The scores of an image, computed off the page's thread, from a bundle beside the page. */
export async function recognise(image) {
  const model = await Model.load(new URL("bundle/", document.baseURI));
  const { scores } = await model.run({ image });
  model.dispose();
  return scores;
}
