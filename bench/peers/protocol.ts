import { errorMessage } from '../../src/util/error-message.ts';
import type { GenerationTimes } from '../generation.ts';
import { ownCpuMs } from '../others.ts';

/** What a contestant is told on its command line, as JSON. */
export interface Setting {
  /** A file or, for some contestants, a folder. */
  readonly modelPath: string;
  /** Blocks of the model, for a contestant that has to know before it opens the file. */
  readonly layers?: number;
  /** A part of the adapter's name; not every contestant can choose. */
  readonly adapter?: string;
  /** The model's compiled library, for a contestant that needs one. */
  readonly library?: string;
}

/** What the bench sends: one generation to do now. Nobody computes anything unasked. */
export interface Order {
  /** How many tokens the prompt has. It is a new one for every order: nothing of it may be cached. */
  readonly context: number;
  /** Of the answer. */
  readonly tokens: number;
}

/** What a contestant sends back. `cpuMs` is the processor time of its process so far. */
export type Reply =
  | { readonly type: 'ready'; readonly name: string; readonly adapter: string; readonly software: boolean }
  | ({ readonly type: 'times'; readonly cpuMs: number } & GenerationTimes)
  | { readonly type: 'failed'; readonly message: string };

interface Contestant {
  readonly name: string;
  /** As the contestant names the device it runs on. */
  readonly adapter: string;
  /** No GPU, but a CPU that speaks Vulkan; false where the contestant cannot tell. */
  readonly software: boolean;
  generate(order: Order): Promise<GenerationTimes>;
}

/** The life of a contestant's process: load, say so, then answer orders until the bench ends it. */
export function contend(load: (setting: Setting) => Promise<Contestant>): void {
  const send = (reply: Reply) => process.send?.(reply);
  const fail = (error: unknown) => send({ type: 'failed', message: errorMessage(error) });
  // A bench that was cut off must not leave a process with a model in it.
  process.on('disconnect', () => process.exit());
  const setting = JSON.parse(process.argv[2] ?? '{}') as Setting;
  load(setting).then((contestant) => {
    process.on('message', (order) => {
      contestant
        .generate(order as Order)
        .then((times) => send({ type: 'times', cpuMs: ownCpuMs(), ...times }), fail);
    });
    const { name, adapter, software } = contestant;
    send({ type: 'ready', name, adapter, software });
  }, fail);
}

/**
 * A greedy answer, timed as a client sees it.
 * @param next the token that follows `tokens`, which go on from what was given before
 */
export async function timeAnswer(
  prompt: readonly number[],
  tokens: number,
  next: (tokens: readonly number[]) => Promise<number>,
): Promise<GenerationTimes> {
  const start = performance.now();
  let token = await next(prompt);
  const first = performance.now();
  for (let count = 1; count < tokens; count++) token = await next([token]);
  const perTokenMs = tokens > 1 ? (performance.now() - first) / (tokens - 1) : 0;
  return { firstTokenMs: first - start, perTokenMs };
}
