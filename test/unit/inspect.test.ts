import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { inspectFiles } from '../../src/cli/models/inspect.ts';
import { type ModelFile, ModelFileError } from '../../src/engine/formats/model-file.ts';
import { inspectModel } from '../../src/engine/loading/inspect.ts';
import { nodePlatform } from '../../src/platform/node.ts';
import { fixtureNames } from '../support/fixture-names.ts';
import { filesOf, memorySource, openSource } from '../support/byte-source.ts';
import { tinyModel } from '../support/tiny-model.ts';

const fixturePath = (name: string) =>
  fileURLToPath(new URL(`../fixtures/architectures/${name}/model.gguf`, import.meta.url));
const bytes = tinyModel({ architecture: 'llama' });
/** The file with one property replaced. */
const changed = async (changes: Partial<ModelFile>): Promise<ModelFile> => ({
  ...(await openSource(memorySource(bytes))),
  ...changes,
});

describe('inspecting a model', () => {
  it.each(fixtureNames)('finds no problem in %s, and computes its memory', async (name) => {
    const found = await inspectFiles(await nodePlatform().modelFiles(fixturePath(name)));
    expect(found).toMatchObject({ facts: { problems: [], memory: { bytes: expect.any(Number) as number } } });
  });

  it('reports errors of the file as problems', async () => {
    const file = await changed({});
    const metadata = new Map(file.metadata);
    metadata.set('general.architecture', 'bloom');
    metadata.delete('tokenizer.ggml.tokens');
    const { problems, contextLength, tokenizer } = await inspectModel({ ...file, metadata });
    expect(problems).toHaveLength(2);
    expect(problems.join()).toMatch(/bloom.*tokenizer\.ggml\.tokens/s);
    expect([contextLength, tokenizer]).toEqual([undefined, undefined]);
  });

  it('reports a quantized vector', async () => {
    const broken = tinyModel({ architecture: 'llama', ropeFactors: Array.from({ length: 32 }, () => 1) });
    const file = await openSource(memorySource(broken));
    const tensors = new Map(file.tensors);
    const factors = tensors.get('rope_freqs.weight');
    if (factors) tensors.set(factors.name, { ...factors, type: 'Q8_0', sizeBytes: 34 });
    const { problems } = await inspectModel({ ...file, tensors });
    expect(problems).toEqual([expect.stringContaining("tensor 'rope_freqs.weight' is Q8_0")]);
  });

  it("throws errors that are not the file's", async () => {
    const ours = new TypeError('undefined is not a function');
    const metadata = new Map<string, never>();
    metadata.get = () => {
      throw ours;
    };
    const { tensors } = await changed({});
    await expect(inspectModel(await changed({ metadata, tensors }))).rejects.toBe(ours);

    const source = memorySource(bytes);
    const failing = (error: Error) => {
      const read = async () => {
        throw error;
      };
      return filesOf({ 'm.gguf': { ...source, sizeBytes: bytes.length, read } }, 'm.gguf');
    };
    await expect(inspectFiles(failing(ours))).rejects.toBe(ours);
    const fault = new ModelFileError('unreadable', 'm.gguf: no');
    expect(await inspectFiles(failing(fault))).toEqual({ problem: 'm.gguf: no' });
  });
});
