/** The tiny models of test/fixtures/architectures as Hugging Face folders, to be changed for a test. */
import { fileURLToPath } from 'node:url';
import { openHuggingFace } from '../../src/engine/formats/hugging-face/index.ts';
import { ModelFileError } from '../../src/engine/formats/model-file.ts';
import { filesOf, memorySource } from './byte-source.ts';
import { folderContents } from './folder-contents.ts';
import { type SafeTensor, safetensorsBytes, tensorsOf } from './safetensors-writer.ts';

export type Contents = Record<string, Uint8Array>;

export const tinyFolder = (name: string): Contents =>
  folderContents(fileURLToPath(new URL(`../fixtures/architectures/${name}/hf`, import.meta.url)));

export const json = (value: unknown): Uint8Array => new TextEncoder().encode(JSON.stringify(value));
export const parsed = (bytes: Uint8Array | undefined): Record<string, unknown> =>
  JSON.parse(new TextDecoder().decode(bytes)) as Record<string, unknown>;

/** The folder with keys of config.json changed; undefined takes one away. */
export const withConfig = (contents: Contents, changes: Record<string, unknown>): Contents => ({
  ...contents,
  'config.json': json({ ...parsed(contents['config.json']), ...changes }),
});

export const weightsOf = (contents: Contents): Record<string, SafeTensor> =>
  tensorsOf(contents['model.safetensors']!);

/** The folder with tensors added, changed, or taken away where undefined. */
export const withWeights = (
  contents: Contents,
  changes: Record<string, SafeTensor | undefined>,
): Contents => {
  const all = Object.entries({ ...weightsOf(contents), ...changes });
  const kept = all.filter((entry): entry is [string, SafeTensor] => entry[1] !== undefined);
  return { ...contents, 'model.safetensors': safetensorsBytes(Object.fromEntries(kept)) };
};

/** Why a folder is refused. Checks that the message names the folder or the file, and that nothing stays open. */
export const refusalOf = async (contents: Contents): Promise<{ code: string; message: string }> => {
  const sources = Object.entries(contents).map(([name, bytes]) => [name, memorySource(bytes, name)] as const);
  const error: unknown = await openHuggingFace(filesOf(Object.fromEntries(sources))).then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof ModelFileError)) throw new Error(`not a ModelFileError: ${String(error)}`);
  if (!/^(folder|[\w/-]+\.safetensors): /.test(error.message)) throw new Error(`unnamed: ${error.message}`);
  const left = sources.filter(([, source]) => source.bytesRead > 0 && !source.closed).map(([name]) => name);
  if (left.length > 0) throw new Error(`still open: ${left.join(', ')}`);
  return { code: error.code, message: error.message };
};
