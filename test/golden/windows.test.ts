/**
 * Hugging Face models with sliding-window attention compared with transformers: Mistral in all layers, Qwen in some.
 */
import { describe, expect, it } from 'vitest';
import { boundsOf, expectLogits } from '../support/against-transformers.ts';
import { loadRunner, platforms, windowed } from '../support/architectures.ts';
import { memoryFiles } from '../support/byte-source.ts';
import { logitsAt, takePages } from '../support/logits-at.ts';
import { maxDifference } from '../support/rows.ts';
import { selectCases } from '../support/tier.ts';
import { tinyFolder, withConfig } from '../support/tiny-folder.ts';

const kernels = Object.keys(platforms) as (keyof typeof platforms)[];

describe.each(windowed.model.runs.map((run) => [run.model, run] as const))('%s', (name, run) => {
  // `npm test` runs the kernels for GPUs of one model: each compiles for seconds.
  it.each(selectCases(kernels, (on) => on === 'software' || name === 'mistral'))(
    'gives the logits of transformers beyond its window (%s)',
    async (on) => {
      const files = memoryFiles(withConfig(tinyFolder(name), { ...run.changes }));
      const runner = await loadRunner(files, { context: 128, parallel: 2, on });
      try {
        for (const slot of [0, 1]) takePages(runner, slot);
        const whole = await logitsAt(runner, run.ids, run.positions);
        expectLogits(`${name}, window`, runner, whole, { run, rows: windowed.rows });
        const pieces = await logitsAt(runner, run.ids, run.positions, { chunks: [7, 30, 1], slot: 1 });
        expect(maxDifference(pieces, whole)).toBeLessThan(boundsOf(runner).logits.sameWay);
      } finally {
        runner.destroy();
      }
    },
  );
});
