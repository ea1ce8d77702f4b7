import { Bench } from 'tinybench';
import {
  type AdapterFacts,
  type DawnFeature,
  type EngineOptions,
  loadEngine,
  type ResidentEngine,
  type Runner,
} from '../src/engine/index.ts';
import { measureCopyBandwidth } from '../src/lab/bench/copy-bandwidth.ts';
import { bytesPerToken } from './cost.ts';
import { timeGeneration } from './generation.ts';
import { measureGrowth } from './growth.ts';
import { memoryOver } from './memory.ts';
import type { BenchModel } from './models.ts';
import { type StepFigures, traceStep } from './nodes.ts';
import type { ContextFigures, LoadFigures, ModelFigures } from './report.ts';
import { watchOtherLoad } from './cpu-load.ts';
import { benchPlatform } from './platform.ts';
import { measurePrefix } from './prefix.ts';
import { median, roundFigure } from './statistics.ts';
import { measureStreams } from './streams.ts';

export interface Effort {
  /** Prompt lengths in tokens. */
  readonly contexts: readonly number[];
  readonly answerTokens: number;
  readonly rounds: number;
  /** Numbers of parallel answers. */
  readonly streams: readonly number[];
  /** Length of the repeated prefix. */
  readonly prefixTokens: number;
  /** Rounds of the slowest measurements: streams, prefix and growth. */
  readonly longRounds: number;
  /** Minimum number of decoded tokens per round for those. */
  readonly longTokens: number;
  readonly growthContexts: readonly number[];
}

export const fullEffort: Effort = {
  contexts: [1, 128, 512],
  answerTokens: 33,
  rounds: 5,
  streams: [1, 2, 4, 8],
  prefixTokens: 512,
  longRounds: 3,
  longTokens: 17,
  growthContexts: [128, 512, 1024, 2048, 4096],
};
export const quickEffort: Effort = {
  ...fullEffort,
  contexts: [1, 128],
  answerTokens: 9,
  rounds: 2,
  streams: [1, 8],
  longRounds: 1,
  longTokens: 9,
  growthContexts: [128, 512, 4096],
};
/** For models that only show how cost grows with size. */
export const sizeEffort: Effort = {
  ...fullEffort,
  contexts: [128],
  answerTokens: 17,
  rounds: 3,
  streams: [],
};

const memoryContexts = [512, 1024, 2048, 4096, 8192];

/** Loads a model twice, measures it, and unloads it. */
export async function measureModel(
  model: BenchModel,
  options: {
    adapter: string | undefined;
    dawnFeatures: readonly DawnFeature[];
    effort: Effort;
    logProgress: (what: string) => void;
  },
): Promise<{ adapter: AdapterFacts; figures: ModelFigures }> {
  const { effort, logProgress } = options;
  const engineOptions: EngineOptions = {
    model: model.path,
    ...(options.adapter === undefined ? {} : { adapter: options.adapter }),
    dawnFeatures: options.dawnFeatures,
    onNotice: logProgress,
    // Answers of random weights are repetitive, so speculation would look much better than it is.
    speculation: 'off',
  };
  const stopWatching = watchOtherLoad();
  logProgress('loading');
  const { engine, load } = await timeLoad(engineOptions);
  try {
    const { runner } = engine;
    const { timestamps, device } = runner.gpu;
    logProgress('copy bandwidth');
    const copyBandwidth = await measureCopyBandwidth(device, {
      software: engine.adapter.software,
      rounds: 2 * effort.rounds,
    });
    const tracedContext = effort.contexts.filter((context) => context <= 128).at(-1) ?? 0;
    const steps: StepFigures[] = [];
    for (const phase of timestamps ? (['decode', 'prefill'] as const) : []) {
      logProgress(`GPU time of each node, ${phase}`);
      // A decode step is short: its time varies more, and more rounds cost little.
      const stepOptions =
        phase === 'decode' ? { context: tracedContext, rounds: 15 } : { context: 0, rounds: effort.rounds };
      steps.push(await traceStep(runner, { phase, ...stepOptions }));
    }
    const contexts = await timeContexts(engine, { ...effort, logProgress });
    const { streams: counts, prefixTokens, longRounds: rounds } = effort;
    const tokens = longTokens(effort, contexts);
    logProgress('parallel answers');
    const streams = await measureStreams(engine, { counts, tokens, rounds });
    const hasPrefix = prefixTokens + 64 <= engine.model.contextLength && counts.length > 0;
    if (hasPrefix) logProgress('a repeated prefix');
    const prefix = hasPrefix ? await measurePrefix(engine, { prefixTokens, rounds }) : undefined;
    logProgress('decode after long contexts');
    const growth = await measureGrowth(runner, {
      contexts: effort.growthContexts,
      tokens,
      rounds,
    });
    const { architecture, quantization, parameters, sizeBytes } = engine.model;
    const figures: ModelFigures = {
      model: model.name,
      randomWeights: model.randomWeights,
      architecture,
      quantization,
      parameters,
      fileBytes: sizeBytes,
      weightBytes: runner.weightBytes,
      load,
      copyBandwidth,
      contexts: contexts.map((one) =>
        toContextFigures(one, { runner, dispatches: steps[0]?.dispatches ?? 0, ...copyBandwidth }),
      ),
      steps,
      streams,
      ...(prefix ? { prefix } : {}),
      growth,
      memory: memoryOver(runner.graph, runner.memory, memoryContexts),
      othersCores: stopWatching(),
    };
    return { adapter: engine.adapter, figures };
  } finally {
    await engine.close();
  }
}

const maxLongTokens = 129;

/**
 * Number of tokens for about a second of decoding, within bounds: with few tokens of a fast model, noise would
 * dominate.
 */
function longTokens(effort: Effort, timedContexts: readonly TimedContext[]): number {
  const perTokenMs = median(timedContexts.map((one) => one.perTokenMs));
  return Math.max(effort.longTokens, Math.min(maxLongTokens, Math.round(1000 / perTokenMs)));
}

async function timeLoad(options: EngineOptions): Promise<{ engine: ResidentEngine; load: LoadFigures }> {
  const start = performance.now();
  const first = await loadEngine(benchPlatform(), options);
  const firstMs = performance.now() - start;
  await first.close();

  const marks: { stage: string; at: number }[] = [];
  const secondStart = performance.now();
  const engine = await loadEngine(benchPlatform(), {
    ...options,
    onProgress({ stage }) {
      if (marks.at(-1)?.stage !== stage) marks.push({ stage, at: performance.now() });
    },
  });
  const end = performance.now();
  const stages = marks.map(({ stage, at }, index): [string, number] => [
    stage,
    Math.round((marks[index + 1]?.at ?? end) - at),
  ]);
  return {
    engine,
    load: {
      firstMs: Math.round(firstMs),
      warmMs: Math.round(end - secondStart),
      stages: Object.fromEntries(stages),
    },
  };
}

type TimedContext = Pick<ContextFigures, 'context' | 'answerTokens' | 'rounds'> & {
  firstTokenMs: number;
  perTokenMs: number;
};

/** Each generation measures both prefill and decode. */
async function timeContexts(
  engine: ResidentEngine,
  { contexts, answerTokens, rounds, logProgress }: Effort & { logProgress: (what: string) => void },
): Promise<TimedContext[]> {
  const bench = new Bench({
    iterations: rounds,
    warmupIterations: 1,
    time: 0,
    warmupTime: 0,
    throws: true,
  });
  const fittingContexts = contexts.filter((context) => context + answerTokens <= engine.model.contextLength);
  const firstTokens = new Map<string, number[]>();
  for (const context of fittingContexts) {
    const name = String(context);
    bench.add(
      name,
      async () => {
        logProgress(`generation after ${context} tokens`);
        const { firstTokenMs, perTokenMs } = await timeGeneration(engine, { context, tokens: answerTokens });
        firstTokens.get(name)?.push(firstTokenMs);
        return { overriddenDuration: perTokenMs };
      },
      {
        // Also called between warm-up and measurement.
        beforeAll() {
          firstTokens.set(name, []);
        },
      },
    );
  }
  const tasks = await bench.run();
  return tasks.map(({ name, result }) => {
    if (result.state !== 'completed') throw new Error(`the figures at ${name} tokens: ${result.state}`);
    const samples = firstTokens.get(name) ?? [];
    return {
      context: Number(name),
      answerTokens,
      rounds: samples.length,
      firstTokenMs: median(samples),
      perTokenMs: result.latency.p50,
    };
  });
}

function toContextFigures(
  timed: TimedContext,
  details: { runner: Runner; dispatches: number; bytesPerSecond: number },
): ContextFigures {
  const { context, answerTokens, rounds, firstTokenMs, perTokenMs } = timed;
  // The cache grows with the answer; its length at the middle of the answer represents the mean.
  const middle = context + answerTokens / 2;
  const bytes = bytesPerToken(details.runner, Math.round(middle));
  const perSecond = 1000 / perTokenMs;
  return {
    context,
    firstTokenMs: roundFigure(firstTokenMs),
    prefillTokensPerSecond: roundFigure((context * 1000) / firstTokenMs),
    decodeTokensPerSecond: roundFigure(perSecond),
    answerTokens,
    rounds,
    dispatchesPerToken: details.dispatches,
    bytesPerToken: bytes,
    partOfCopyBandwidth: roundFigure(((bytes.weights + bytes.cache) * perSecond) / details.bytesPerSecond),
  };
}
