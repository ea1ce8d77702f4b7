/**
 * Every architecture and every weight type compared with Hugging Face transformers, on models with random weights.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openModelFile } from '../../src/engine/formats/open-model-file.ts';
import { loadEngine } from '../../src/engine/index.ts';
import type { Runner } from '../../src/engine/execution/runner.ts';
import { greedySampling } from '../../src/engine/types.ts';
import { boundsOf, comparisons, expectEmbeddings, expectLogits } from '../support/against-transformers.ts';
import {
  type EmbeddingModel,
  embeddingModels,
  everyType,
  exactOn,
  type Fixture,
  type GeneratingModel,
  generatingModels,
  loadRunner,
  type LoadOptions,
  type LogitsRun,
  platforms,
} from '../support/architectures.ts';
import { embedTimes, stepTimes, type StepTimes, typeTimes } from '../support/model-times.ts';
import { modelsPage } from '../support/models-page.ts';
import { logitsAt, takePages } from '../support/logits-at.ts';
import { mixtures, promptDivergences } from '../support/mixtures.ts';
import { argmax, maxDifference } from '../support/rows.ts';
import { everyNth, runsRest, selectCases, tier } from '../support/tier.ts';
import { memoryPlatform } from '../support/tiny-model.ts';

/** `WRITE_TABLES=1` rewrites docs/models.md when the whole file runs; times are only measured then. */
const writes = process.env['WRITE_TABLES'] === '1';
const times = new Map<string, StepTimes>();
const architectures = new Map<string, string>();
afterAll(async () => {
  const all = comparisons();
  // oxlint-disable-next-line no-console -- they are what one wants to see of this file
  console.table(all.comparisons);
  if (!writes) return;
  const { types, weights } = await typeTimes();
  const nameOf = (fixture: string) => architectures.get(fixture) ?? fixture;
  const tails = new Map<string, { usual: number[]; exact: number[] }>();
  for (const [name, model] of Object.entries(mixtures)) {
    const [usual, exact] = [
      await promptDivergences(model, { exact: false, seeds: [1, 2, 3, 4] }),
      await promptDivergences(model, { exact: true, seeds: [1, 2, 3, 4] }),
    ];
    tails.set(name, { usual, exact });
  }
  const text = modelsPage({
    ...all,
    times,
    types,
    mixtures: tails,
    typeWeights: weights,
    architectureOf: nameOf,
  });
  writeFileSync(new URL('../../docs/models.md', import.meta.url), text);
});

const slots = 4;
const allQuantizeTypes = ['Q8_0', 'Q4_0'] as const;
const quantizeTypes = selectCases(allQuantizeTypes, (type) => type === 'Q8_0');

/** `general.architecture` of a file. */
async function architectureOf(path: string): Promise<string> {
  const file = await openModelFile(await platforms.software.modelFiles(path));
  await file.close();
  return String(file.metadata.get('general.architecture'));
}

const logitsRun = ({ model }: Fixture<GeneratingModel>, name: string, weights = 'BF16'): LogitsRun => {
  const run = model.runs.find((one) => one.name === name && one.weights === weights);
  if (!run) throw new Error(`there is no run '${name}' of ${weights}`);
  return run;
};

/** Loads, runs, and destroys the device. */
async function using(
  path: string,
  options: LoadOptions,
  work: (runner: Runner) => Promise<void>,
): Promise<void> {
  const runner = await loadRunner(path, { parallel: slots, ...options });
  try {
    for (let slot = 0; slot < slots; slot++) takePages(runner, slot);
    await work(runner);
  } finally {
    runner.destroy();
  }
}

/** The logits after one more token of a slot, as in generation. */
async function decode(runner: Runner, id: number, position: number, slot: number): Promise<Float32Array> {
  const step = runner.newStep();
  step.clear();
  step.sample(step.decodeToken(id, position, slot), slot, position + 1, greedySampling);
  const [row] = await runner.logits(step);
  return row as Float32Array;
}

/** The logits of the last tokens when four sequences share a step: three that decode, and the start of a prompt. */
async function together(
  runner: Runner,
  ids: readonly number[],
  lengths: readonly number[],
): Promise<Float32Array[]> {
  for (const [slot, length] of lengths.slice(1).entries())
    await logitsAt(runner, ids.slice(0, length - 1), [], { slot: slot + 1 });
  const step = runner.newStep();
  step.clear();
  const [first = 0, ...others] = lengths;
  // Rows that are decoded come before rows of prompts.
  for (const [index, length] of others.entries()) {
    const row = step.decodeToken(ids[length - 1] as number, length - 1, index + 1);
    step.sample(row, index + 1, length, greedySampling);
  }
  step.sample(step.prefillTokens(ids, 0, first, 0), 0, first, greedySampling);
  const logits = await runner.logits(step);
  return [...logits.slice(-1), ...logits.slice(0, -1)];
}

/** Models with all of their tests in `npm test`; the others have one there. */
const sampledModels = everyNth(generatingModels, 7);

describe.each(generatingModels.map((fixture) => [fixture.name, fixture] as const))('%s', (name, fixture) => {
  const runsAll = tier === 'all' || sampledModels.includes(fixture);
  const quantizations = tier === 'rest' && runsAll ? allQuantizeTypes : quantizeTypes;
  const { path, rows, model } = fixture;
  const prompt = logitsRun(fixture, 'prompt');
  const lengths = [29, 41, 12, 64];
  // A model with other positions in long contexts is tested with a short one.
  const long = model.runs.find((run) => run.name === 'long factors');
  const context = long ? 256 : model.context;
  let runner: Runner;
  let whole: Float32Array[];

  beforeAll(async () => {
    runner = await loadRunner(path('model.gguf'), { context, parallel: slots });
    for (let slot = 0; slot < slots; slot++) takePages(runner, slot);
    whole = await logitsAt(runner, prompt.ids, prompt.positions);
  });
  afterAll(async () => {
    if (writes) {
      architectures.set(name, await architectureOf(path('model.gguf')));
      times.set(name, await stepTimes(runner));
    }
    runner.destroy();
  });

  it('gives the logits of transformers at every position', () => {
    expectLogits(`${name}, BF16`, runner, whole, { run: prompt, rows });
  });

  it.runIf(runsRest)('gives the same for any chunks of a prompt, and token by token', async () => {
    const { sameWay } = boundsOf(runner).logits;
    for (const chunks of [[1], [3, 17, 1, 30], [31, 2, 32]]) {
      const got = await logitsAt(runner, prompt.ids, prompt.positions, { chunks, slot: 1 });
      expect(maxDifference(got, whole), `chunks of ${chunks.join(', ')}`).toBeLessThan(sameWay);
    }
    const decoded: Float32Array[] = [];
    for (const [position, id] of prompt.ids.entries()) decoded.push(await decode(runner, id, position, 2));
    expect(maxDifference(decoded, whole)).toBeLessThan(sameWay);
  });

  it.runIf(runsAll)('gives the same when sequences share a step', async () => {
    const got = await together(runner, prompt.ids, lengths);
    const alone = lengths.map((length) => whole[length - 1] as Float32Array);
    expect(maxDifference(got, alone)).toBeLessThan(boundsOf(runner).logits.sameWay);
  });

  it.runIf(runsAll)('continues greedily with the tokens of transformers', async () => {
    const { prompt: ids, ids: expected } = model.greedy;
    const sampledIds: number[] = [];
    let [row] = await logitsAt(runner, ids, [ids.length - 1]);
    while (sampledIds.length < expected.length) {
      const id = argmax(row as Float32Array);
      row = await decode(runner, id, ids.length + sampledIds.push(id) - 1, 0);
    }
    expect(sampledIds).toEqual(expected);
  });

  it.runIf(runsAll)(
    'gives the logits of transformers at the edges of windows and at the end of the context',
    () =>
      using(path('model.gguf'), { context: model.context }, async (other) => {
        const run = logitsRun(fixture, 'whole context');
        const got = await logitsAt(other, run.ids, run.positions, { chunks: [100, 28, 128] });
        expectLogits(`${name}, whole context`, other, got, { run, rows });
        if (!long) return;
        const beyond = await logitsAt(other, long.ids, long.positions);
        expectLogits(`${name}, long factors`, other, beyond, { run: long, rows });
      }),
  );

  // Their kernels take long to compile here; kernels' own tests have them all.
  it.runIf(runsRest)('gives the logits of transformers on the kernels for GPUs', () =>
    using(path('model.gguf'), { context, on: 'hardware' }, async (gpu) => {
      const got = await logitsAt(gpu, prompt.ids, prompt.positions);
      expectLogits(`${name}, kernels for GPUs`, gpu, got, { run: prompt, rows });
      const shared = await together(gpu, prompt.ids, lengths);
      const alone = lengths.map((length) => got[length - 1] as Float32Array);
      expect(maxDifference(shared, alone)).toBeLessThan(boundsOf(gpu).logits.sameWay);
    }),
  );

  it.each(['hf', 'hf-sharded'].filter((folder) => runsAll && fixture.has(folder)))(
    'is the same model as a Hugging Face folder (%s)',
    (folder) =>
      using(path(folder), { context }, async (other) =>
        expect(await logitsAt(other, prompt.ids, prompt.positions)).toEqual(whole),
      ),
  );

  it.each(quantizations.filter(() => runsAll || runsRest))(
    'gives the logits of transformers quantized to %s',
    (quantize) =>
      using(path('model.gguf'), { context, quantize }, async (other) => {
        const run = logitsRun(fixture, 'prompt', quantize);
        const got = await logitsAt(other, run.ids, run.positions);
        expectLogits(`${name}, ${quantize}`, other, got, { run, rows });
      }),
  );
});

describe('files of llama-quantize', () => {
  it.each(everyNth(everyType.model.runs, 6).map((run) => [run.file ?? '', run] as const))(
    '%s gives the logits of its weights',
    (file, run) =>
      using(everyType.path(file), { context: 128 }, async (runner) => {
        const got = await logitsAt(runner, run.ids, run.positions);
        expectLogits(`types, ${run.weights}`, runner, got, { run, rows: everyType.rows });
      }),
  );
});

/** The embeddings of all inputs in one request; each alone must be the same. */
async function expectSameEmbeddings(
  { name, path, rows, model }: Fixture<EmbeddingModel>,
  file: string,
  { on = 'software', ...options }: LoadOptions,
  label = 'BF16',
): Promise<Float32Array[]> {
  const { inputs, context } = model;
  const engine = await loadEngine(platforms[on], {
    context,
    exact: exactOn(on),
    ...options,
    model: path(file),
  });
  try {
    const { embeddings } = await engine.embed({ inputs });
    const alone: Float32Array[] = [];
    for (const input of inputs) alone.push(...(await engine.embed({ inputs: [input] })).embeddings);
    expect(maxDifference(alone, embeddings)).toBeLessThan(boundsOf(engine.runner).embedding.sameWay);
    const run = model.runs.find(({ weights }) => weights === (options.quantize ?? 'BF16'));
    if (!run) throw new Error(`${name}: there are no embeddings of ${options.quantize}`);
    expectEmbeddings(`${name}, ${label}`, engine.runner, embeddings, { run, rows });
    return embeddings;
  } finally {
    await engine.close();
  }
}

describe.each(embeddingModels.map((fixture) => [fixture.name, fixture] as const))('%s', (name, fixture) => {
  afterAll(async () => {
    if (!writes) return;
    const model = fixture.path('model.gguf');
    architectures.set(name, await architectureOf(model));
    const engine = await loadEngine(platforms.software, { model, context: fixture.model.context });
    times.set(name, await embedTimes(engine));
    await engine.close();
  });

  it('gives the embeddings of transformers, and the same from a Hugging Face folder', async () => {
    const converted = await expectSameEmbeddings(fixture, 'model.gguf', {});
    expect(await expectSameEmbeddings(fixture, 'hf', {}, 'BF16 (hf)')).toEqual(converted);
  });

  it
    .runIf(fixture.model.pooling === 'last')
    .each(runsRest ? (['software', 'hardware'] as const) : (['software'] as const))(
    'gives the embeddings of transformers when it generates, because its file names no pooling (%s)',
    async (on) => {
      const { inputs, context, runs } = fixture.model;
      const bytes = readFileSync(fixture.path('model.gguf'));
      const key = bytes.indexOf('.pooling_type');
      bytes.write('.unknown_type', key);
      const engine = await loadEngine(
        {
          ...memoryPlatform(bytes),
          requestAdapter: (options) => platforms[on].requestAdapter(options),
        },
        { model: 'memory.gguf', context, exact: exactOn(on) },
      );
      try {
        expect(engine.model).toMatchObject({ kind: 'generate', pooling: 'last' });
        const { embeddings } = await engine.embed({ inputs });
        const run = runs.find(({ weights }) => weights === 'BF16');
        if (!run) throw new Error(`${name}: there are no embeddings of BF16`);
        expectEmbeddings(
          `${name}, generating${on === 'software' ? '' : ', kernels for GPUs'}`,
          engine.runner,
          embeddings,
          { run, rows: fixture.rows },
        );
      } finally {
        await engine.close();
      }
    },
  );

  it.runIf(runsRest)('gives the embeddings of transformers on the kernels for GPUs', async () => {
    await expectSameEmbeddings(fixture, 'model.gguf', { on: 'hardware' }, 'kernels for GPUs');
  });

  it.each(quantizeTypes)('gives the embeddings of transformers quantized to %s', async (quantize) => {
    await expectSameEmbeddings(fixture, 'model.gguf', { quantize }, quantize);
  });
});
