/** A simulated model with given times, on a machine with noise, for tests of benchmarks. */
import type { Arm, BenchPort, TracedDispatch } from '../../src/lab/bench/port.ts';
import { type Random, seededRandom } from '../../src/util/random.ts';
import type { AdapterPeaks } from '../../src/lab/bench/roofline.ts';
import type { Fingerprint } from '../../src/lab/types.ts';

const normal = (random: Random): number =>
  Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());

/** A machine: called once a sample, what it does to the sample's time, as a factor. */
export type Machine = (random: Random) => () => number;

export const machines = {
  still: () => () => 1,
  /** 3% of normal noise, as on an idle machine. */
  mild: (random) => () => Math.exp(0.03 * normal(random)),
  /** Never faster than it can, often a little slower, at times much. */
  lognormal: (random) => () => 1 + 0.05 * Math.exp(0.8 * normal(random)),
  spikes: (random) => () => Math.exp(0.03 * normal(random)) * (random() < 0.1 ? 1.2 + random() : 1),
  /** Every sample a little slower than the one before. */
  drift: (random) => {
    let samples = 0;
    return () => Math.exp(0.03 * normal(random) + 0.002 * samples++);
  },
  /** Another process takes a core, for some twenty samples at a time. */
  shared: (random) => {
    let taken = false;
    return () => {
      if (random() < 0.05) taken = !taken;
      return Math.exp(0.03 * normal(random)) * (taken ? 1.6 : 1);
    };
  },
  /** Slow waves: each sample is much like the one before. */
  waves: (random) => {
    let state = 0;
    return () => {
      state = 0.9 * state + 0.05 * normal(random);
      return Math.exp(state + 0.02 * normal(random));
    };
  },
} satisfies Record<string, Machine>;

export interface SimulatedModel {
  /** Each decoded token goes into a state, so that the next one at its position has another answer. */
  readonly hasState?: boolean;
  readonly machine?: Machine;
  /** Whether requests run in a pause after so many calls. */
  readonly hasOthers?: (calls: number) => boolean;
  readonly seed?: number;
  /** The bound arm's speed as a multiple of the baseline's. */
  readonly speedup?: number;
  /** The same, changing with each sample of the bound arm. */
  readonly speedupAt?: (sample: number) => number;
  readonly timestamps?: boolean;
  readonly maxContext?: number;
  readonly tokenMs?: number;
  readonly components?: (arm: Arm) => readonly TracedDispatch[];
  /** Changes what the bound arm answers. `timed`: in a timed sample, not where logits are compared. `position` of the token before. */
  readonly answer?: (token: number, call: { timed: boolean; position: number }) => number;
}

export interface Call {
  readonly what: 'prefill' | 'decode' | 'prefillLogits' | 'decodeLogits' | 'fill' | 'trace';
  readonly arm: Arm;
  readonly tokens: readonly number[];
  readonly context: number;
}

/** Some 10 GB/s, 100 GFLOP/s. */
export const peaks: AdapterPeaks = { gbps: 10, cachedGbps: 20, gflops: 100, dispatchMs: 0.02 };

export const fingerprint: Fingerprint = {
  adapter: 'llvmpipe',
  backend: 'vulkan',
  driver: 'Mesa 25.0.7',
  dawn: '0.6.2',
  toggles: [],
  features: ['timestamp-query'],
  model: `sha256:${'ab'.repeat(32)}`,
  kernels: { 'my-norm': `sha256:${'cd'.repeat(32)}` },
  seed: 7,
};

const dispatch = (id: string, ms: number, flops = 1e6, bytes = 1e6): TracedDispatch => ({
  id,
  kernel: `builtin:${id.split('.').at(-1)}.wgsl`,
  ms,
  flops,
  bytes,
});

/** Two layers and what stands around them, far below every peak. */
export const plainComponents = (): readonly TracedDispatch[] => [
  dispatch('embed', 0.03, 0, 1e3),
  ...[0, 1].flatMap((layer) => [
    dispatch(`layers.${layer}.attn.qkv`, 0.4),
    dispatch(`layers.${layer}.ffn.down`, 0.8),
  ]),
  dispatch('logits', 0.5),
];

const vocabulary = 1000;

const hashOf = (tokens: readonly number[]): number =>
  tokens.reduce((hash, token) => (Math.imul(hash, 31) + token + 1) >>> 0, 17) % vocabulary;

/** Logits of which one stands out. */
const logitsFor = (token: number): Float32Array =>
  new Float32Array(vocabulary).fill(0).fill(20, token, token + 1);

/** A port whose answers depend on the last tokens only, and the calls that it got. */
export function simulatedPort(model: SimulatedModel = {}): BenchPort & { readonly calls: Call[] } {
  const { speedup = 1, tokenMs = 2.5, components = plainComponents, answer = (token) => token } = model;
  const random = seededRandom(model.seed ?? 1);
  const noise = (model.machine ?? machines.still)(random);
  const calls: Call[] = [];
  let boundCalls = 0;
  /** Stands for a state: the token that it took up last. */
  let taken = 0;
  const took = (arm: Arm, ms: number): number => {
    const factor = arm === 'bound' ? (model.speedupAt?.(boundCalls++) ?? speedup) : 1;
    return (ms / factor) * noise();
  };
  const answered = (arm: Arm, token: number, timed: boolean, position: number): number =>
    arm === 'bound' ? answer(token, { timed, position }) % vocabulary : token;
  const afterPrompt = (arm: Arm, tokens: readonly number[], timed: boolean): number => {
    taken = tokens.at(-1) ?? 0;
    return answered(arm, hashOf(tokens), timed, tokens.length - 1);
  };
  const decoded = (arm: Arm, context: number, tokens: readonly number[], timed: boolean): number[] =>
    tokens.map((token, n) => {
      const read = model.hasState ? [taken, token] : [token];
      taken = token;
      return answered(arm, hashOf(read), timed, context + n);
    });
  return {
    calls,
    hasTimestamps: model.timestamps ?? true,
    isSoftware: true,
    maxContext: model.maxContext ?? 2048,
    vocabulary,
    stepTokens: 128,
    hasRecurrentState: model.hasState ?? false,
    async prefill(arm, tokens, { first, count }) {
      calls.push({ what: 'prefill', arm, tokens: tokens.slice(first, first + count), context: first });
      const isLast = first + count === tokens.length;
      return { ms: took(arm, (count * tokenMs) / 5), tokens: isLast ? [afterPrompt(arm, tokens, true)] : [] };
    },
    async decode(arm, context, tokens) {
      calls.push({ what: 'decode', arm, tokens, context });
      return { ms: took(arm, tokens.length * tokenMs), tokens: decoded(arm, context, tokens, true) };
    },
    async prefillLogits(arm, tokens) {
      calls.push({ what: 'prefillLogits', arm, tokens, context: 0 });
      return [logitsFor(afterPrompt(arm, tokens, false))];
    },
    async decodeLogits(arm, context, tokens) {
      calls.push({ what: 'decodeLogits', arm, tokens, context });
      return decoded(arm, context, tokens, false).map(logitsFor);
    },
    async pause() {
      return model.hasOthers?.(calls.length) ?? false;
    },
    async fill(first, tokens) {
      calls.push({ what: 'fill', arm: 'baseline', tokens, context: first });
      taken = tokens.at(-1) ?? 0;
    },
    async trace(arm, context) {
      calls.push({ what: 'trace', arm, tokens: [], context });
      return components(arm);
    },
  };
}
