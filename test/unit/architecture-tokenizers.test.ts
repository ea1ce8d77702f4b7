/** Tokenizers of converted files and of Hugging Face folders give the ids that the folder's tokenizer.json gives. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { openModelFile } from '../../src/engine/formats/open.ts';
import { createTokenizer } from '../../src/engine/tokenizer/index.ts';
import { localFiles } from '../../src/platform/node-folder.ts';

interface Expected {
  readonly texts?: readonly { readonly text: string; readonly ids: readonly number[] }[];
}

const root = fileURLToPath(new URL('../fixtures/architectures/', import.meta.url));
const expectedOf = (name: string): Expected => {
  const path = `${root}${name}/expected.json`;
  return existsSync(path) ? (JSON.parse(readFileSync(path, 'utf8')) as Expected) : {};
};
const models = readdirSync(root).flatMap((name) => {
  const { texts } = expectedOf(name);
  return texts ? [[name, texts] as const] : [];
});

describe.each(models)('%s', (name, texts) => {
  const forms = ['model.gguf', 'hf', 'hf-sharded'].filter((form) => existsSync(`${root}${name}/${form}`));
  it.each(forms)('%s', async (form) => {
    const file = await openModelFile(await localFiles(`${root}${name}/${form}`));
    await file.close();
    const tokenizer = createTokenizer(file.metadata);
    const got = texts.map(({ text }) => ({ text, ids: tokenizer.encode(text, { addSpecial: true }) }));
    expect(got).toEqual(texts);
  });
});
