import type { GenerationTimes } from '../generation.ts';
import { ownCpuMs } from '../others.ts';

/** What a contestant is told on its command line, as JSON. */
export interface Setting {
  readonly modelPath: string;
  readonly adapter?: string;
}

/** What the bench sends: one generation to do now. Nobody computes anything unasked. */
export interface Order {
  readonly context: number;
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
  /** No GPU, but a CPU that speaks Vulkan. */
  readonly software: boolean;
  generate(order: Order): Promise<GenerationTimes>;
}

/** The life of a contestant's process: load, say so, then answer orders until the bench ends it. */
export function contend(load: (setting: Setting) => Promise<Contestant>): void {
  const send = (reply: Reply) => process.send?.(reply);
  const fail = (error: unknown) =>
    send({ type: 'failed', message: error instanceof Error ? error.message : String(error) });
  const setting = JSON.parse(process.argv[2] ?? '{}') as Setting;
  load(setting).then((contestant) => {
    // A bench that was cut off must not leave a process with a model in it.
    process.on('disconnect', () => process.exit());
    process.on('message', (order) => {
      contestant
        .generate(order as Order)
        .then((times) => send({ type: 'times', cpuMs: ownCpuMs(), ...times }), fail);
    });
    const { name, adapter, software } = contestant;
    send({ type: 'ready', name, adapter, software });
  }, fail);
}
