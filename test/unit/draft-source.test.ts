/** Which models can draft for which target: their vocabularies must agree. */
import { describe, expect, it } from 'vitest';
import { openDraft, requireDraftModel } from '../../src/engine/speculation/draft-source.ts';
import { openModelFile } from '../../src/engine/formats/open-model-file.ts';
import { buildGraph } from '../../src/engine/models/registry.ts';
import type { Platform } from '../../src/engine/platform.ts';
import { createTokenizer } from '../../src/engine/tokenizer/index.ts';
import type { EngineOptions } from '../../src/engine/types.ts';
import { memoryPlatform, tinyModel, type TinyModel } from '../support/tiny-model.ts';

const model = (changes: Partial<TinyModel> = {}) =>
  tinyModel({ architecture: 'llama', layers: 1, width: 32, heads: 2, ...changes });

/** Replaces a token's text in the file by one with the same number of bytes. */
function renamed(bytes: Uint8Array, from: string, to: string): Uint8Array {
  const copy = bytes.slice();
  const at = Buffer.from(bytes).indexOf(from);
  if (at < 0 || from.length !== to.length) throw new Error(`nothing to rename: ${from}`);
  copy.set(Buffer.from(to), at);
  return copy;
}

async function open(
  target: Uint8Array,
  draft: Uint8Array,
  options: Partial<EngineOptions> = {},
  platform: Platform = memoryPlatform(target, draft),
) {
  const file = await openModelFile(await platform.modelFiles('memory.gguf'));
  try {
    const parts = { file, graph: await buildGraph(file), tokenizer: createTokenizer(file.metadata) };
    const opened = await openDraft(
      platform,
      { model: 'memory.gguf', draft: 'draft.gguf', ...options },
      parts,
    );
    await opened?.file.close();
    return opened;
  } finally {
    await file.close();
  }
}

describe('a draft model', () => {
  it('with the same tokens is accepted, for any architecture, also when one has more padding tokens', async () => {
    expect((await open(model(), model({ architecture: 'qwen3', seed: 8 })))?.graph.shape.layers).toBe(1);
    expect(await open(model({ vocab: 288 }), model({ vocab: 320 }))).toBeDefined();
    expect(await open(model({ vocab: 320 }), model({ vocab: 288 }))).toBeDefined();
    // Padding tokens may have any name.
    const other = renamed(model({ vocab: 320 }), '<unused310>', '[PAD310000]');
    expect(await open(model({ vocab: 320 }), other)).toBeDefined();
  });

  it('whose layers keep states, or that reads its file for every token, is rejected', async () => {
    const file = await openModelFile(await memoryPlatform(model()).modelFiles('memory.gguf'));
    const { shape } = await buildGraph(file);
    await file.close();
    expect(() => requireDraftModel('small', shape)).not.toThrow();
    const caches = [
      { kind: 'pages', kvHeads: 2, headDim: 64 } as const,
      { kind: 'state', floats: 64 } as const,
    ];
    expect(() => requireDraftModel('small', { ...shape, caches })).toThrow(
      /layers of small keep a recurrent state/,
    );
    expect(() => requireDraftModel('small', { ...shape, layerInput: 32 })).toThrow(
      /reads its file for every token/,
    );
  });

  it('is not used when none is named', async () => {
    const platform = memoryPlatform(model());
    const file = await openModelFile(await platform.modelFiles('memory.gguf'));
    const parts = { file, graph: await buildGraph(file), tokenizer: createTokenizer(file.metadata) };
    expect(await openDraft(platform, { model: 'memory.gguf' }, parts)).toBeUndefined();
    await file.close();
  });

  it('with the same number of tokens but one different is rejected, naming that token', async () => {
    await expect(open(model(), renamed(model(), '<|start|>', '<|begin|>'))).rejects.toMatchObject({
      code: 'invalid_request',
      message: expect.stringContaining('token 257 is "<|begin|>", not "<|start|>"'),
    });
  });

  it.each([
    ['target', 320, 288],
    ['draft', 288, 320],
  ])('when the %s has an additional meaningful token is rejected', async (which, ours, theirs) => {
    const more = renamed(model({ vocab: 320 }), '<unused315>', 'wonderfully');
    const [target, draft] =
      which === 'target' ? [more, model({ vocab: theirs })] : [model({ vocab: ours }), more];
    await expect(open(target, draft)).rejects.toThrow(
      /has 288, the other 320, of which token 315 of .* "wonderfully"/,
    );
  });

  it('is quantized while loading, if anything can be quantized', async () => {
    const quantised = await open(model(), model(), { quantize: 'Q8_0' });
    expect(quantised?.file.tensors.get('blk.0.ffn_up.weight')?.type).toBe('Q8_0');
    const already = await open(model(), model({ type: 'Q4_0' }), { quantize: 'Q8_0' });
    expect(already?.file.tensors.get('blk.0.ffn_up.weight')?.type).toBe('Q4_0');
  });

  it('closes its file when it is rejected', async () => {
    const base = memoryPlatform(model(), model({ pooling: 3, architecture: 'qwen3' }));
    let closed = 0;
    const platform: Platform = {
      ...base,
      async modelFiles(location) {
        const files = await base.modelFiles(location);
        if (location !== 'draft.gguf') return files;
        const openFile = files.open.bind(files);
        return {
          ...files,
          async open(name: string) {
            const source = await openFile(name);
            if (!source) return undefined;
            return Object.assign(Object.create(source) as typeof source, {
              close: async () => {
                closed += 1;
                await source.close();
              },
            });
          },
        };
      },
    };
    await expect(open(model(), model(), {}, platform)).rejects.toThrow(/makes embeddings/);
    expect(closed).toBe(1);
  });
});
