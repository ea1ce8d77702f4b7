import { errorMessage } from '../../src/util/error-message.ts';
import type { GenerationTimes } from '../generation.ts';
import { ownCpuMs } from '../cpu-load.ts';

/** Settings of a contestant, passed as JSON on its command line. */
export interface Setting {
  /** A file or, for some contestants, a folder. */
  readonly modelPath: string;
  /** Number of layers, for a contestant that needs it before it opens the file. */
  readonly layers?: number;
  /** Substring of the adapter's name; some contestants cannot choose. */
  readonly adapter?: string;
  /** Path of the compiled model library, for contestants that need one. */
  readonly library?: string;
}

/** Request of the bench for one generation. Contestants compute only on request. */
export interface Order {
  /** Prompt length in tokens. Each order uses a new prompt, so that nothing is cached. */
  readonly context: number;
  /** Answer length in tokens. */
  readonly tokens: number;
}

/** Reply of a contestant. `cpuMs` is the processor time of its process so far. */
export type Reply =
  | { readonly type: 'ready'; readonly name: string; readonly adapter: string; readonly software: boolean }
  | ({ readonly type: 'times'; readonly cpuMs: number } & GenerationTimes)
  | { readonly type: 'failed'; readonly message: string };

interface Contestant {
  readonly name: string;
  /** Name of the device, as the contestant reports it. */
  readonly adapter: string;
  /** Whether the device is a software Vulkan driver; false when the contestant cannot tell. */
  readonly software: boolean;
  generate(order: Order): Promise<GenerationTimes>;
}

/** Main loop of a contestant's process: loads the model, reports ready, then serves orders until the bench ends it. */
export function runContestant(load: (setting: Setting) => Promise<Contestant>): void {
  const send = (reply: Reply) => process.send?.(reply);
  const fail = (error: unknown) => send({ type: 'failed', message: errorMessage(error) });
  // Exits with the bench, so that no process with a loaded model is left behind.
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
 * Times a greedy answer as a client sees it.
 * @param next appends `tokens` to the sequence and returns the next token
 */
export async function timeAnswer(
  prompt: readonly number[],
  tokens: number,
  next: (tokens: readonly number[]) => Promise<number>,
): Promise<GenerationTimes> {
  const start = performance.now();
  let token = await next(prompt);
  const firstTokenAt = performance.now();
  for (let count = 1; count < tokens; count++) token = await next([token]);
  const perTokenMs = tokens > 1 ? (performance.now() - firstTokenAt) / (tokens - 1) : 0;
  return { firstTokenMs: firstTokenAt - start, perTokenMs };
}
