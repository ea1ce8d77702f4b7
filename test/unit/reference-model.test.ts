import { readFileSync } from 'node:fs';
import { beforeAll, describe, expect, it } from 'vitest';
import { argmax, dequantize, quantize } from '../../kernels/reference/index.ts';
import { openModelFile } from '../../src/engine/formats/open-model-file.ts';
import type { ModelFile } from '../../src/engine/formats/model-file.ts';
import type { ByteSource } from '../../src/engine/platform.ts';
import { nodePlatform } from '../../src/platform/node.ts';
import { llama2cAsGguf } from '../support/llama2c.ts';
import { ReferenceModel, referenceForward } from '../support/reference-model.ts';
import { describeShared, fixtureModel, fixturePath, modelsPath } from '../support/shared.ts';
import { openSource } from '../support/byte-source.ts';
import { everyNth } from '../support/tier.ts';

interface Golden {
  prompts: {
    name: string;
    ids: number[];
    /** 32 tokens of llama.cpp on lathe-tiny-f16. */
    greedy: number[];
    /** [token id, logit] at the last prompt position. */
    top5: [number, number][];
  }[];
}

const goldenOf = (path: string): Golden['prompts'] =>
  (JSON.parse(readFileSync(path, 'utf8')) as Golden).prompts;
const prompts = goldenOf(fixturePath('golden.json'));

async function open(path: string): Promise<ModelFile> {
  return openModelFile(await nodePlatform().modelFiles(path));
}

async function load(path: string): Promise<ReferenceModel> {
  const file = await open(path);
  const model = await ReferenceModel.load(file);
  await file.close();
  return model;
}

/**
 * Logits within `tolerance` of llama.cpp's five and its greedy tokens, where it is fed with those tokens and may
 * differ only where the two best are within `tolerance`.
 */
function expectGolden(model: ReferenceModel, prompt: Golden['prompts'][number], tolerance: number) {
  let logits = model.forward(prompt.ids).at(-1)!;
  for (const [token, logit] of prompt.top5) {
    expect(Math.abs(logits[token]! - logit), `logit of ${token}`).toBeLessThan(tolerance);
  }
  for (const [step, expected] of prompt.greedy.entries()) {
    expect(logits[argmax(logits)]! - logits[expected]!, `step ${step}`).toBeLessThan(tolerance);
    logits = model.step(expected);
  }
}

describeShared(
  'the reference model on lathe-tiny-f16 is llama.cpp',
  ['model/lathe-tiny-f16.gguf'],
  (path) => {
    let model: ReferenceModel;
    beforeAll(async () => {
      model = await load(path);
    });

    it.each(everyNth(prompts, 3))('logits within 0.02 and the greedy tokens: $name', (prompt) => {
      expectGolden(model.fork(), prompt, 0.02);
    });

    it('one token at a time is the same as all at once', async () => {
      const { ids } = prompts[0]!;
      const file = await open(path);
      const together = await referenceForward(file, ids);
      await file.close();
      const alone = model.fork();
      for (const [t, id] of ids.entries()) expect(alone.step(id)).toEqual(together[t]);
    });

    it("our Q8_0 encoding of it is byte for byte the fixture's", async () => {
      const f16 = await open(path);
      const q8 = await open(fixtureModel);
      let compared = 0;
      for (const info of f16.tensors.values()) {
        const [rows, cols] = info.shape;
        if (rows === undefined || cols === undefined) continue; // norms stay F32
        const values = dequantize(info.type, await f16.readRows(info, 0, rows), rows * cols);
        const theirs = await q8.readRows(q8.tensors.get(info.name)!, 0, rows);
        expect(Buffer.compare(quantize('Q8_0', values), theirs), info.name).toBe(0);
        compared += 1;
      }
      expect(compared).toBe(1 + 4 * 7);
      await f16.close();
      await q8.close();
    });
  },
);

const builds = [
  ['the embedded lathe-tiny-q8_0', modelsPath],
  ['the lathe-tiny-q8_0 of the fixtures', fixturePath],
] as const;

describe.each(everyNth(builds, 2))('the reference model on %s', (_name, pathOf) => {
  it('logits within 0.25 of the unquantised ones and the greedy tokens, all prompts', async () => {
    const model = await load(pathOf('lathe-tiny-q8_0.gguf'));
    for (const prompt of everyNth(goldenOf(pathOf('golden.json')), 3))
      expectGolden(model.fork(), prompt, 0.25);
  });
});

const stories = 'data/weights/stories260K';
describeShared(
  'the reference model on a llama2.c checkpoint',
  [`${stories}/stories260K.bin`, `${stories}/tok512.bin`],
  (checkpoint, vocabulary) => {
    it('tells the story that its weights are known for', async () => {
      const bytes = llama2cAsGguf(readFileSync(checkpoint), readFileSync(vocabulary));
      const file = await openSource(memorySource(bytes));
      const pieces = file.metadata.get('tokenizer.ggml.tokens') as readonly string[];
      const model = await ReferenceModel.load(file);
      let token = Number(file.metadata.get('tokenizer.ggml.bos_token_id'));
      let text = '';
      for (let n = 0; n < 64; n++) {
        token = argmax(model.step(token));
        text += pieces[token]!.replaceAll('\u2581', ' ');
      }
      expect(text).toMatch(/^ Once upon a time, there was a little girl named Lily\./);
      expect(text).toContain('She wanted to play with it, but it was too high.');
    });
  },
);

function memorySource(bytes: Uint8Array): ByteSource {
  return {
    name: 'memory',
    sizeBytes: bytes.length,
    async read(offset, length, into) {
      const part = bytes.slice(offset, offset + length);
      if (part.length < length) throw new RangeError('read beyond the end');
      into?.set(part);
      return into?.subarray(0, length) ?? part;
    },
    async close() {},
  };
}
