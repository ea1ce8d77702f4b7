import { describe, expect, it } from 'vitest';
import { openModelFile } from '../../src/engine/formats/open-model-file.ts';
import type { ModelFiles } from '../../src/engine/platform.ts';
import { memoryFiles } from '../support/byte-source.ts';
import { ggufBytes, text } from '../support/gguf-writer.ts';

const gguf = (name: string) => ggufBytes({ metadata: [['general.name', text(name)]], tensors: [] });
const json = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));
const nameOf = async (files: ModelFiles) => (await openModelFile(files)).metadata.get('general.name');
/** What a folder is taken for shows in its own reader's complaint about an empty configuration. */
const complaint = (files: ModelFiles) =>
  openModelFile(files).then(
    () => 'opened',
    (error: unknown) => (error instanceof Error ? error.message : String(error)),
  );

describe('a model that is a GGUF file', () => {
  it('is the file that is named, whatever else lies there and whatever it is called', async () => {
    const contents = {
      'a.gguf': gguf('a'),
      'b.gguf': gguf('b'),
      'config.json': json({}),
      blob: gguf('blob'),
    };
    expect(await nameOf(memoryFiles(contents, 'b.gguf'))).toBe('b');
    expect(await nameOf(memoryFiles(contents, 'blob'))).toBe('blob');
  });

  it('is the only one of a folder, projectors and importance matrices aside', async () => {
    const contents = {
      'imatrix/a.gguf': gguf('a'),
      'mmproj-a.gguf': gguf('p'),
      'a.imatrix.gguf': gguf('i'),
      'README.md': json({}),
    };
    expect(await nameOf(memoryFiles(contents))).toBe('a');
  });

  it('is asked for when a folder holds several, listing them', async () => {
    const contents = { 'a.gguf': gguf('a'), 'b.gguf': gguf('b') };
    await expect(openModelFile(memoryFiles(contents))).rejects.toMatchObject({
      code: 'several_models',
      message: expect.stringMatching(/name one of: a\.gguf, b\.gguf/),
    });
  });
});

describe('a model that is a folder', () => {
  const mlc = { 'mlc-chat-config.json': json({}), 'tensor-cache.json': json({}) };
  const face = { 'config.json': json({}), 'model.safetensors': new Uint8Array(8) };

  it.each([
    ['MLC', { ...mlc }, undefined],
    ['MLC, by a shard', { ...mlc, 'params_shard_0.bin': new Uint8Array(4) }, 'params_shard_0.bin'],
    ['MLC before Hugging Face', { ...mlc, ...face }, undefined],
    ['MLC, by its configuration', { ...mlc }, 'mlc-chat-config.json'],
  ] as const)('is %s', async (_, contents, entry) => {
    expect(await complaint(memoryFiles(contents, entry))).toMatch(/MLC|mlc-chat-config/);
  });

  it.each([undefined, 'model.safetensors', 'config.json'])('is Hugging Face, named by %s', async (entry) => {
    expect(await complaint(memoryFiles(face, entry))).not.toMatch(/not a GGUF|MLC|mlc|opened/);
  });

  it('is found where the place cannot list its files', async () => {
    const files = { ...memoryFiles(mlc), list: async () => undefined };
    expect(await complaint(files)).toMatch(/MLC|mlc-chat-config/);
  });

  it('is refused when there is none, or only a file of it', async () => {
    expect(await complaint(memoryFiles({ 'README.md': json({}) }))).toMatch(
      /no model in this folder; it needs a \.gguf file, or config\.json/,
    );
    const header = new Uint8Array([8, 0, 0, 0, 0, 0, 0, 0, ...json({ a: 1 })]);
    expect(await complaint(memoryFiles({ 'x.safetensors': header }, 'x.safetensors'))).toMatch(
      /a safetensors file: put config\.json/,
    );
    expect(await complaint(memoryFiles({}, 'x.gguf'))).toMatch(/no file 'x\.gguf'/);
  });
});
