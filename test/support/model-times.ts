/** Step times on the adapter, for docs/models.md. */
import { openRunner } from '../../src/engine/loading/open-runner.ts';
import { type ModelFile, tensorTypes, type TensorType } from '../../src/engine/formats/model-file.ts';
import { openModelFile } from '../../src/engine/formats/open-model-file.ts';
import { columnsOf, rowsOf } from '../../src/engine/formats/rows.ts';
import { buildGraph } from '../../src/engine/models/registry.ts';
import type { Runner } from '../../src/engine/execution/runner.ts';
import { type Engine, greedySampling } from '../../src/engine/types.ts';
import { testPlatform } from './test-platform.ts';
import { memoryFiles } from './byte-source.ts';
import { takePages } from './logits-at.ts';
import { retyped } from './retyped.ts';
import { tinyModel } from './tiny-model.ts';

/** Medians, in ms. */
export interface StepTimes {
  /** Time of one decoded token after the prompt. */
  readonly token: number;
  /** Time of a prompt of 64 tokens, or of as many as a step or the context holds. */
  readonly prompt: number;
}

const rounds = 15;

/** Times of steps of slot 0, which has its pages. */
export async function stepTimes(runner: Runner): Promise<StepTimes> {
  const { vocabulary } = runner.graph.shape;
  const { stepTokens, context } = runner.memory.capacity;
  const length = Math.min(64, stepTokens, context - rounds - 1);
  const ids = Array.from({ length }, (_, i) => (i * 7919 + 13) % vocabulary);
  const step = runner.newStep();
  const timed = async (): Promise<number> => {
    const start = performance.now();
    await runner.submit(step);
    return performance.now() - start;
  };
  const prompts: number[] = [];
  const tokens: number[] = [];
  for (let n = 0; n < rounds; n++) {
    step.clear();
    step.sample(step.prefillTokens(ids, 0, length, 0), 0, length, greedySampling);
    prompts.push(await timed());
  }
  for (let n = 0; n < rounds; n++) {
    step.clear();
    step.sample(step.decodeToken(1, length + n, 0), 0, length + n + 1, greedySampling);
    tokens.push(await timed());
  }
  return { token: median(tokens), prompt: median(prompts) };
}

/** Times of an embedding model: texts of one token, and of 64. */
export async function embedTimes(engine: Pick<Engine, 'embed'>): Promise<StepTimes> {
  const timed = async (length: number): Promise<number> => {
    const input = Array.from({ length }, (_, i) => 5 + (i % 200));
    const times: number[] = [];
    for (let n = 0; n < rounds; n++) {
      const start = performance.now();
      await engine.embed({ inputs: [input] });
      times.push(performance.now() - start);
    }
    return median(times);
  };
  return { token: await timed(1), prompt: await timed(64) };
}

/** A model of 18 million weights in each type: medians of its steps. */
export async function typeTimes(): Promise<{ types: Map<TensorType, StepTimes>; weights: number }> {
  const shape = { layers: 2, width: 1024, heads: 16, kvHeads: 8, headDim: 64, feedForward: 2048 } as const;
  const bytes = tinyModel({ architecture: 'llama', ...shape, type: 'Q8_0', untied: true });
  const files = memoryFiles({ 'memory.gguf': bytes }, 'memory.gguf');
  const base = await openModelFile(files);
  const matrices = [...base.tensors.values()].filter((tensor) => tensor.shape.length > 1);
  const weights = matrices.reduce((sum, tensor) => sum + rowsOf(tensor) * columnsOf(tensor), 0);
  const types = new Map<TensorType, StepTimes>();
  for (const type of Object.keys(tensorTypes) as TensorType[]) {
    const runner = await runnerOf(retyped(base, () => type));
    takePages(runner, 0);
    types.set(type, await stepTimes(runner));
    runner.destroy();
  }
  return { types, weights };
}

async function runnerOf(file: ModelFile): Promise<Runner> {
  const options = { model: 'memory.gguf', context: 256, parallel: 1, exact: true };
  return await openRunner({ platform: testPlatform(), options, file, graph: await buildGraph(file) });
}

const median = (values: readonly number[]): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] as number;
