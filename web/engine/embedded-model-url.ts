/** Relative to the folder of the built module. */
const path = '../models/lathe-tiny-q8_0.gguf';

/** URL of the model that is beside the engine in the builds of the pages. */
export const embeddedModelUrl = new URL(path, import.meta.url).href;
