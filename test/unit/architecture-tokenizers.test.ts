/** Tokenizers of converted files and of Hugging Face folders give the ids that the folder's tokenizer.json gives. */
import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { openModelFile } from '../../src/engine/formats/open-model-file.ts';
import { createTokenizer } from '../../src/engine/tokenizer/index.ts';
import { openLocalFiles } from '../../src/platform/node-folder.ts';
import { fixtureNames } from '../support/fixture-names.ts';

interface Expected {
  readonly texts: readonly { readonly text: string; readonly ids: readonly number[] }[];
}

const root = fileURLToPath(new URL('../fixtures/architectures/', import.meta.url));

describe.each(fixtureNames)('%s', (name) => {
  const { texts } = JSON.parse(readFileSync(`${root}${name}/expected.json`, 'utf8')) as Expected;
  const forms = ['model.gguf', 'hf', 'hf-sharded'].filter((form) => existsSync(`${root}${name}/${form}`));
  it.each(forms)('%s', async (form) => {
    const file = await openModelFile(await openLocalFiles(`${root}${name}/${form}`));
    await file.close();
    const tokenizer = createTokenizer(file.metadata);
    const got = texts.map(({ text }) => ({ text, ids: tokenizer.encode(text, { addSpecial: true }) }));
    expect(got).toEqual(texts);
  });
});
