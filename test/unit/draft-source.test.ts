/** Which models may draft for which: their tokens have to be the same. */
import { describe, expect, it } from 'vitest';
import { openDraft, refuseDraft } from '../../src/engine/draft-source.ts';
import { openModelFile } from '../../src/engine/formats/open.ts';
import { buildGraph } from '../../src/engine/models/registry.ts';
import type { Platform } from '../../src/engine/platform.ts';
import { createTokenizer } from '../../src/engine/tokenizer/index.ts';
import type { EngineOptions } from '../../src/engine/types.ts';
import { memoryPlatform, tinyModel, type TinyModel } from '../support/tiny-model.ts';

const model = (changes: Partial<TinyModel> = {}) =>
  tinyModel({ architecture: 'llama', layers: 1, width: 32, heads: 2, ...changes });

/** A token's text in the file replaced by one of as many bytes. */
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
  it('of the same tokens is taken, whatever its architecture, also where either has more to fill up', async () => {
    expect((await open(model(), model({ architecture: 'qwen3', seed: 8 })))?.graph.shape.layers).toBe(1);
    expect(await open(model({ vocab: 288 }), model({ vocab: 320 }))).toBeDefined();
    expect(await open(model({ vocab: 320 }), model({ vocab: 288 }))).toBeDefined();
    // Fillers may be called what they like.
    const other = renamed(model({ vocab: 320 }), '<unused310>', '[PAD310000]');
    expect(await open(model({ vocab: 320 }), other)).toBeDefined();
  });

  it('that keeps states of its layers, or reads its file for every token, is refused', async () => {
    const file = await openModelFile(await memoryPlatform(model()).modelFiles('memory.gguf'));
    const { shape } = await buildGraph(file);
    await file.close();
    expect(() => refuseDraft('small', shape)).not.toThrow();
    const caches = [
      { kind: 'pages', kvHeads: 2, headDim: 64 } as const,
      { kind: 'state', floats: 64 } as const,
    ];
    expect(() => refuseDraft('small', { ...shape, caches })).toThrow(/layers of small keep a state/);
    expect(() => refuseDraft('small', { ...shape, layerInput: 32 })).toThrow(
      /reads its file for every token/,
    );
  });

  it('is none where nobody names it', async () => {
    const platform = memoryPlatform(model());
    const file = await openModelFile(await platform.modelFiles('memory.gguf'));
    const parts = { file, graph: await buildGraph(file), tokenizer: createTokenizer(file.metadata) };
    expect(await openDraft(platform, { model: 'memory.gguf' }, parts)).toBeUndefined();
    await file.close();
  });

  it('of as many tokens, one of which is another, is refused by that one', async () => {
    await expect(open(model(), renamed(model(), '<|start|>', '<|begin|>'))).rejects.toMatchObject({
      code: 'invalid_request',
      message: expect.stringContaining('token 257 is "<|begin|>", not "<|start|>"'),
    });
  });

  it.each([
    ['target', 320, 288],
    ['draft', 288, 320],
  ])('where the %s has a further token that means something is refused', async (which, ours, theirs) => {
    const more = renamed(model({ vocab: 320 }), '<unused315>', 'wonderfully');
    const [target, draft] =
      which === 'target' ? [more, model({ vocab: theirs })] : [model({ vocab: ours }), more];
    await expect(open(target, draft)).rejects.toThrow(
      /has 288, the other 320, of which token 315 of .* "wonderfully"/,
    );
  });

  it('is opened as it is quantised, as far as there is anything to quantise', async () => {
    const quantised = await open(model(), model(), { quantize: 'Q8_0' });
    expect(quantised?.file.tensors.get('blk.0.ffn_up.weight')?.type).toBe('Q8_0');
    const already = await open(model(), model({ type: 'Q4_0' }), { quantize: 'Q8_0' });
    expect(already?.file.tensors.get('blk.0.ffn_up.weight')?.type).toBe('Q4_0');
  });

  it('that is refused is closed', async () => {
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
