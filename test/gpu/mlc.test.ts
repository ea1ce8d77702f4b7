/** Folders compiled by MLC, on the adapter: the logits of the weights after its quantization. */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, it } from 'vitest';
import { dequantizeRows } from '../../kernels/reference/index.ts';
import type { ModelFile } from '../../src/engine/formats/model-file.ts';
import { bytesOfRow, rowsOf } from '../../src/engine/formats/rows.ts';
import { boundsOf } from '../support/against-transformers.ts';
import { loadRunner, platforms } from '../support/architectures.ts';
import { memoryFiles, memorySource, openSource } from '../support/byte-source.ts';
import { expectClose } from '../support/kernel-harness.ts';
import { logitsAt, takePages } from '../support/logits-at.ts';
import { mlcFolder, type MlcQuantization, mlcRoundTrip } from '../support/mlc-writer.ts';
import { ReferenceModel } from '../support/reference-model.ts';
import { everyNth } from '../support/tier.ts';
import { tinyFolder } from '../support/tiny-folder.ts';

const converted = (name: string): Promise<ModelFile> => {
  const path = fileURLToPath(new URL(`../fixtures/architectures/${name}/model.gguf`, import.meta.url));
  return openSource(memorySource(new Uint8Array(readFileSync(path))));
};

/** A GGUF file with all weights as dequantized from MLC, in F32. */
const roundTripped = (file: ModelFile, quantization: MlcQuantization): ModelFile => ({
  ...file,
  tensors: new Map(
    [...file.tensors].map(([name, info]) => {
      const sizeBytes = rowsOf(info) * bytesOfRow({ type: 'F32', shape: info.shape });
      return [name, { ...info, type: 'F32', sizeBytes }];
    }),
  ),
  async readRows({ name }, first, rows) {
    const info = file.tensors.get(name);
    if (!info) throw new Error(`there is no ${name}`);
    const columns = info.shape.at(-1) ?? 0;
    const bytes = await file.readRows(info, first, rows);
    const values = Float32Array.from(dequantizeRows(info.type, bytes, { rows, columns }));
    const how = { quantization: info.shape.length === 2 ? quantization : 'q0f16' } as const;
    for (let at = 0; at < values.length; at += columns)
      values.set(mlcRoundTrip(values.slice(at, at + columns), how), at);
    return new Uint8Array(values.buffer);
  },
});

const ids = Array.from({ length: 40 }, (_, n) => 8 + ((n * 37) % 260));
const positions = ids.map((_, position) => position);
const families = ['llama', 'qwen2', 'gemma3'];
const kernels = Object.keys(platforms) as (keyof typeof platforms)[];

const cases = (['q4f16_1', 'q3f16_1'] as const).flatMap((quantization) =>
  families.flatMap((name) => kernels.map((on) => [quantization, name, on] as const)),
);

describe('an MLC folder', () => {
  it.each(everyNth(cases, 9))(
    'in %s of %s gives the logits of the CPU oracle (%s)',
    async (quantization, name, on) => {
      const files = memoryFiles(mlcFolder(tinyFolder(name), { quantization }));
      const runner = await loadRunner(files, { context: 64, parallel: 1, on });
      try {
        takePages(runner, 0);
        const got = await logitsAt(runner, ids, positions, { chunks: [33, 1] });
        const oracle = await ReferenceModel.load(roundTripped(await converted(name), quantization), 'F16');
        // Sums are in 16 bits in a GPU's kernels.
        const tolerance = { nmse: 5e-5, maxAbs: boundsOf(runner).logits.exact };
        for (const [position, expected] of oracle.forward(ids).entries())
          expectClose(got[position] ?? [], expected, tolerance, `position ${position}`);
      } finally {
        runner.destroy();
      }
    },
  );
});
