import type { ModelFiles } from '../platform.ts';
import { openGguf } from './gguf.ts';
import { isGgufModelPath } from './gguf-name.ts';
import { openHuggingFace } from './hugging-face/index.ts';
import { openMlc } from './mlc/index.ts';
import { type ModelFile, ModelFileError } from './model-file.ts';
import { parseSplitName } from './split-name.ts';

/**
 * Folder formats and the file that identifies each. MLC comes first, because its folders may also have a config.json.
 */
const folderFormats = [
  { markerFile: 'mlc-chat-config.json', open: openMlc },
  { markerFile: 'config.json', open: openHuggingFace },
] as const;

/** Files that belong to a folder format. Naming one of them opens the whole folder. */
const folderFilePattern = /\.safetensors$|\.json$|(^|\/)params_shard_\d+\.bin$/i;

/**
 * Opens a model and detects its format: a GGUF file (or any part of a split one), a Hugging Face folder or an MLC
 * folder. Reads only headers; `readRows` reads weights.
 * @throws ModelFileError the message names the file and what to do
 */
export const openModelFile = async (files: ModelFiles): Promise<ModelFile> => {
  const { entry } = files;
  if (entry !== undefined && !folderFilePattern.test(entry)) return openGguf(files, entry);
  if (entry === undefined) {
    const gguf = chooseGguf(files, (await files.list()) ?? []);
    if (gguf !== undefined) return openGguf(files, gguf);
  }
  for (const { markerFile, open } of folderFormats) {
    if (await fileExists(files, markerFile)) return open(files);
  }
  // openGguf reports what the file is.
  if (entry !== undefined) return openGguf(files, entry);
  throw new ModelFileError(
    'not_found',
    `${files.name}: no model in this folder; it needs a .gguf file, or config.json with its .safetensors files, ` +
      'or mlc-chat-config.json with its shards',
  );
};

const fileExists = async (files: ModelFiles, name: string): Promise<boolean> => {
  const source = await files.open(name);
  await source?.close();
  return source !== undefined;
};

/**
 * Returns the only GGUF model among the files; the parts of a split model count as one. Undefined when there is none.
 * @throws ModelFileError `several_models`
 */
const chooseGguf = (files: ModelFiles, names: readonly string[]): string | undefined => {
  const models = new Map<string, string>();
  for (const name of names.filter(isGgufModelPath)) {
    const model = parseSplitName(name)?.model ?? name;
    if (!models.has(model)) models.set(model, name);
  }
  const [first, ...others] = models.values();
  if (others.length === 0) return first;
  throw new ModelFileError(
    'several_models',
    `${files.name}: there are several models in this folder; name one of: ${[...models.values()].join(', ')}`,
  );
};
