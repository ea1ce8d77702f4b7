import { describe, expect, it } from 'vitest';
import type { TracedDispatch } from '../../src/lab/bench/port.ts';
import { runBench } from '../../src/lab/bench/run-bench.ts';
import type { BenchProgress, BenchRequest } from '../../src/lab/types.ts';
import {
  fingerprint,
  machines,
  peaks,
  plainComponents,
  type SimulatedModel,
  simulatedPort,
} from '../support/simulated-bench.ts';

const never = new AbortController().signal;

async function bench(model: SimulatedModel, request: BenchRequest = {}, seed = 7) {
  const port = simulatedPort(model);
  const result = await runBench(port, request, { seed, signal: never, peaks, fingerprint });
  return { result, calls: port.calls };
}

describe('a bench', () => {
  it('of a known speed-up reports it, with tokens/s, for prompts and each context', async () => {
    const { result } = await bench({ speedup: 1.25 });
    expect(result.verdict).toBe('faster');
    expect(result.delta).toEqual({ prefill: 0.25, decode: 0.25 });
    expect(result.ratio_ci95).toEqual([1.25, 1.25]);
    expect(result.baseline).toEqual({ prefill_tps: 2000, decode_tps: 400 });
    expect(result.bound).toEqual({ prefill_tps: 2500, decode_tps: 500 });
    expect(result.prefill).toMatchObject({ prompt_tokens: 64, ratio: 1.25, verdict: 'faster' });
    expect(result.prefill.control).toEqual({ ratio: 1, ci95: { low: 1, high: 1 } });
    expect(result.decode.map(({ context }) => context)).toEqual([32, 128, 512]);
    for (const one of result.decode) {
      expect(one).toMatchObject({ ratio: 1.25, verdict: 'faster', baseline_tps: 400, bound_tps: 500 });
    }
    expect(result.rounds).toBe(8);
    expect(result.method).toMatch(/^8 rounds .*seed 7\.$/);
    expect(result.peaks).toEqual({ gbps: 10, cached_gbps: 20, gflops: 100 });
    expect(result.fingerprint).toBe(fingerprint);
    expect(result.warnings).toEqual([]);
  });

  it('reports its progress and the times of every round', async () => {
    const reported: BenchProgress[] = [];
    const port = simulatedPort({ speedup: 1.25 });
    const onProgress = (progress: BenchProgress) => void reported.push(progress);
    const options = { seed: 7, signal: never, peaks, fingerprint, onProgress };
    const { rounds } = await runBench(port, { contexts: [32] }, options);
    const round = Array.from({ length: rounds }, () => 'round');
    expect(reported.map(({ stage }) => stage)).toEqual(['warm_up', ...round, 'outputs', 'components']);
    const numbers = reported.flatMap((one) => (one.stage === 'round' ? [one.round] : []));
    expect(numbers).toEqual(Array.from({ length: rounds }, (_, index) => index + 1));
    expect(reported[1]).toEqual({
      stage: 'round',
      round: 1,
      least: 8,
      most: 80,
      samples: [
        { kind: 'prefill', context: 64, tokens: 64, baseline_ms: 32, bound_ms: 25.6, control_ms: 32 },
        { kind: 'decode', context: 32, tokens: 8, baseline_ms: 20, bound_ms: 16, control_ms: 20 },
      ],
    });
  });

  it('of slower kernels reports slower', async () => {
    expect((await bench({ speedup: 0.9, machine: machines.mild })).result.verdict).toBe('slower');
  });

  it('of equal arms is no difference, in at least 114 of 120 benches, on every machine', async () => {
    const noisy = ['mild', 'lognormal', 'spikes', 'drift', 'shared', 'waves'] as const;
    let decided = 0;
    for (let seed = 0; seed < 120; seed++) {
      const machine = machines[noisy[seed % noisy.length] ?? 'mild'];
      const { result } = await bench({ machine, seed: seed + 100, timestamps: false }, {}, seed);
      if (result.verdict !== 'no_difference') decided += 1;
    }
    expect(decided).toBeLessThanOrEqual(6);
  });

  it('detects a difference of 5% under mild noise in at least 36 of 40 benches', async () => {
    let found = 0;
    for (let seed = 0; seed < 40; seed++) {
      const model = { machine: machines.mild, seed, speedup: 1.05, timestamps: false };
      if ((await bench(model, {}, seed)).result.verdict === 'faster') found += 1;
    }
    expect(found).toBeGreaterThanOrEqual(36);
  });

  it.each(['mild', 'lognormal', 'spikes', 'drift', 'shared', 'waves'] as const)(
    'finds a slow-down of 10% in 19 of 20 quick runs, or says that it cannot: %s',
    async (name) => {
      const found = { faster: 0, slower: 0, no_difference: 0, inconclusive: 0, suspect: 0 };
      for (let seed = 0; seed < 20; seed++) {
        const model = { machine: machines[name], seed: seed + 300, speedup: 1 / 1.1, timestamps: false };
        found[(await bench(model, {}, seed)).result.verdict] += 1;
      }
      expect(found.slower + found.inconclusive).toBeGreaterThanOrEqual(19);
      expect(found.slower).toBeGreaterThanOrEqual(15);
      expect(found.faster).toBe(0);
    },
  );

  it('has no verdict over contexts that contradict each other, and says how they differ', async () => {
    const port = simulatedPort({});
    const decode = port.decode.bind(port);
    Object.assign(port, {
      decode: async (...[arm, context, tokens]: Parameters<typeof decode>) => {
        const answer = await decode(arm, context, tokens);
        const factor = arm === 'baseline' ? 1 : context < 100 ? 0.4 : 1.25;
        return { ...answer, ms: answer.ms * factor };
      },
    });
    const result = await runBench(
      port,
      { contexts: [32, 512], rounds: 8 },
      { seed: 7, signal: never, peaks, fingerprint },
    );
    expect(result.decode.map(({ verdict }) => verdict)).toEqual(['faster', 'slower']);
    expect(result.verdict).toBe('inconclusive');
    expect(result.warnings.join()).toMatch(
      /contexts differ: faster at 32 \(150\.0%\), slower at 512 \(-20\.0%\)/,
    );
  });

  it('is the same for the same seed, and different for another', async () => {
    const model = { machine: machines.mild };
    const [first, again, other] = [await bench(model), await bench(model), await bench(model, {}, 8)];
    expect(again).toEqual(first);
    expect(other.calls).not.toEqual(first.calls);
  });
});

describe('the samples of a bench', () => {
  it('have new inputs in every round, the same for both arms and the control', async () => {
    const { result, calls } = await bench({}, { rounds: 6, contexts: [10], new_tokens: 16 });
    expect(result.rounds).toBe(6);
    for (const what of ['prefill', 'decode'] as const) {
      const inputs = Map.groupBy(
        calls.filter((call) => call.what === what),
        ({ tokens }) => tokens.join(),
      );
      // One more for each round of the warm-up.
      expect(inputs.size).toBeGreaterThan(result.rounds);
      for (const same of inputs.values())
        expect(same.map(({ arm }) => arm).sort()).toEqual(['baseline', 'baseline', 'bound']);
    }
    const timed = calls.filter(({ what }) => what === 'decode').slice(-18);
    expect(new Set(timed.map(({ context, tokens }) => `${context} ${tokens.length}`))).toEqual(
      new Set(['10 16']),
    );
    for (const token of calls.flatMap(({ tokens }) => tokens)) {
      expect(token).toBeGreaterThanOrEqual(0);
      expect(token).toBeLessThan(1000);
    }
  });

  it('are long enough to be timed, also on a fast machine', async () => {
    const { calls } = await bench({ tokenMs: 0.8 });
    const counts = calls.filter(({ what }) => what === 'decode').map(({ tokens }) => tokens.length);
    expect(Math.max(...counts)).toBe(25);
  });

  it('increase in number if noise hides the difference, up to a time limit', async () => {
    const still = await bench({ speedup: 1.02 });
    const noisy = await bench({ speedup: 1.02, machine: machines.waves });
    expect(noisy.result.rounds).toBeGreaterThan(still.result.rounds);
    expect(noisy.result.rounds).toBeLessThanOrEqual(80);
    const full = await bench({ speedup: 1.02, machine: machines.waves }, { mode: 'full' });
    expect(full.result.rounds).toBeGreaterThan(noisy.result.rounds);
    const slow = await bench({ machine: machines.waves, tokenMs: 100 });
    expect(slow.result.rounds).toBe(8);
  });

  it('begin when the machine has settled', async () => {
    const slowStart = { speedupAt: (sample: number) => (sample < 8 ? 0.05 : 1) };
    const { result } = await bench(slowStart);
    expect(result.verdict).toBe('no_difference');
    expect(result.delta.decode).toBe(0);
    expect(result.warnings).toEqual([]);
    // All arms become faster from round to round, so that only the warm-up is affected.
    const restless = await bench({
      machine() {
        let samples = 0;
        return () => Math.max(1, 3 - Math.floor(samples++ / 12) / 2);
      },
    });
    expect(restless.result.warnings).toEqual([
      'the warm-up did not settle: times still changed by more than 5% between rounds',
    ]);
  });

  it('fit the context of the model; larger requests cause a warning', async () => {
    const small = await bench({ maxContext: 64 });
    expect(small.result.decode.map(({ context }) => context)).toEqual([32]);
    expect(small.result.warnings).toEqual([]);
    const { result, calls } = await bench(
      { maxContext: 64 },
      { prompt_tokens: 100, contexts: [4, 8, 500], new_tokens: 70 },
    );
    expect(result.warnings).toEqual([
      'new_tokens 70 exceeds the context of 64 tokens; 63 is used',
      'context 4 exceeds the context of 64 tokens; 1 is used',
      'context 8 exceeds the context of 64 tokens; 1 is used',
      'context 500 exceeds the context of 64 tokens; 1 is used',
      'prompt_tokens 100 exceeds the context of 64 tokens; 64 is used',
    ]);
    for (const { tokens, context } of calls) expect(context + tokens.length).toBeLessThanOrEqual(64);
    const { calls: tiny } = await bench({ maxContext: 2 });
    for (const { tokens, context } of tiny) expect(context + tokens.length).toBeLessThanOrEqual(2);
  });

  it('of a cell follow each other, requests run between cells, and also on a busy host the bench ends', async () => {
    const ran: number[] = [];
    const hasOthers = (calls: number) => {
      ran.push(calls);
      return true;
    };
    const { result, calls } = await bench({ hasOthers, speedup: 1.25 }, { contexts: [40], rounds: 6 });
    expect(result).toMatchObject({ verdict: 'faster', rounds: 6, warnings: [] });
    expect(result.decode[0]?.outputs).toMatchObject({ timed_tokens: 48, timed_same: 48, worst_kl: 0 });
    // Never between the samples of a cell, or the arms of a comparison.
    for (const at of ran.filter((index) => index > 0 && index < calls.length)) {
      const [before, after] = [calls[at - 1], calls[at]];
      if (before?.what === 'trace') continue;
      expect([before?.what, before?.tokens]).not.toEqual([after?.what, after?.tokens]);
    }
    const most = Math.max(...ran.map((at, n) => at - (ran[n - 1] ?? 0)));
    expect(most).toBeLessThanOrEqual(4);
  });

  it('are short enough for requests to run between them, also on a slow machine, unless a size is requested', async () => {
    const { result, calls } = await bench({ tokenMs: 300 });
    expect(result.prefill.prompt_tokens).toBe(16);
    const timed = calls.filter(({ what }) => what === 'decode').slice(-12);
    expect(Math.max(...timed.map(({ tokens }) => tokens.length))).toBe(1);
    expect(result.baseline.decode_tps).toBeCloseTo(1000 / 300, 1);
    const requested = await bench({ tokenMs: 300 }, { prompt_tokens: 64, new_tokens: 5, rounds: 2 });
    expect(requested.result.prefill.prompt_tokens).toBe(64);
    expect(requested.result.budget).toMatchObject({ prompt_tokens: 64, new_tokens: { least: 5, most: 5 } });
    expect(requested.result.decode[0]?.outputs.timed_tokens).toBe(10);
    for (const { what, tokens } of calls) if (what === 'fill') expect(tokens.length).toBeLessThanOrEqual(64);
  });

  it('have parts between which requests run, where they are long', async () => {
    const ran = new Set<number>();
    const hasOthers = (calls: number) => {
      ran.add(calls);
      return false;
    };
    const request = { prompt_tokens: 300, new_tokens: 5, contexts: [40], rounds: 6 };
    const { result, calls } = await bench({ tokenMs: 250, speedup: 1.25, hasOthers }, request);
    expect(result).toMatchObject({ verdict: 'faster', rounds: 6 });
    expect(result.baseline.decode_tps).toBeCloseTo(1000 / 250, 1);
    expect(result.baseline.prefill_tps).toBeCloseTo(5000 / 250, 1);
    for (const [what, contexts] of [
      ['decode', [40, 41, 42, 43, 44]],
      ['prefill', [0, 128, 256]],
    ] as const) {
      const timed = calls
        .flatMap((call, index) => (call.what === what ? [{ ...call, index }] : []))
        .slice(-3 * contexts.length);
      expect(timed.map(({ context }) => context)).toEqual(contexts.flatMap((at) => [at, at, at]));
      expect(timed.filter(({ index }) => ran.has(index)).map(({ context }) => context)).toEqual(contexts);
    }
  });

  it('of a requested number of rounds end with the budget', async () => {
    const { result } = await bench(
      { tokenMs: 2000 },
      { prompt_tokens: 64, new_tokens: 8, contexts: [40], rounds: 20 },
    );
    // Each round takes 3 x (64 x 0.4 + 8 x 2) s.
    expect(result).toMatchObject({ rounds: 6, budget: { rounds: { least: 6, most: 20 }, max_ms: 600_000 } });
    expect(result.warnings.join()).toContain('budget: 6 of 20 rounds were measured within 600 s');
  });

  it('end with the reason of the signal', async () => {
    for (const what of ['prefill', 'decode', 'fill', 'trace'] as const) {
      const controller = new AbortController();
      const port = simulatedPort({});
      const reason = new Error('the client went away');
      const method = port[what].bind(port) as (...values: unknown[]) => Promise<never>;
      let calls = 0;
      Object.assign(port, {
        [what](...values: unknown[]) {
          if (++calls === 3) controller.abort(reason);
          return method(...values);
        },
      });
      const options = { seed: 1, signal: controller.signal, peaks, fingerprint };
      await expect(runBench(port, {}, options)).rejects.toBe(reason);
      expect(port.calls.filter((call) => call.what === what)).toHaveLength(3);
    }
  });
});

describe('a bench warns', () => {
  it('about a machine that becomes slower, with a correct verdict', async () => {
    const { result } = await bench({ machine: machines.drift, speedup: 1.3 });
    expect(result.warnings.join()).toMatch(
      /drift: from the first round to the last, the baseline became .*slower/,
    );
    expect(result.verdict).toBe('faster');
    expect(result.delta.decode).toBeGreaterThan(0.27);
    expect(result.delta.decode).toBeLessThan(0.33);
  });

  it('about a growing difference', async () => {
    const { result } = await bench({ speedupAt: (sample) => 1 + sample / 100 }, { rounds: 10 });
    expect(result.warnings.join()).toMatch(/drift: the bound kernels' lead changed by \d/);
  });

  it('about too much noise, and about too few rounds', async () => {
    const { result: wild } = await bench({ machine: (random) => () => 0.5 + random() });
    expect(wild.warnings.join()).toMatch(/noise: the ratio is known to \d/);
    const { result } = await bench({ speedup: 2 }, { rounds: 3 });
    expect(result.rounds).toBe(3);
    expect(result.verdict).toBe('inconclusive');
    expect(result.warnings.join()).toMatch(/3 rounds are not enough .* at least 6/);
  });

  it('about an adapter without timestamps, and omits its components', async () => {
    const { result, calls } = await bench({ timestamps: false, speedup: 1.2 });
    expect(result.components).toEqual([]);
    expect(calls.some(({ what }) => what === 'trace')).toBe(false);
    expect(result.warnings.join()).toMatch(/no timestamp queries/);
    expect(result.verdict).toBe('faster');
  });
});

it('a model with recurrent state is compared along a text, not by decoding at the same position twice', async () => {
  const { result } = await bench({ hasState: true, speedup: 1.25 }, { contexts: [32, 128] });
  expect(result).toMatchObject({ verdict: 'faster', warnings: [] });
});

describe('a bench suspects', () => {
  /** A step of 100 MB and 1 GFLOP: at 20 GB/s at least 5 ms. */
  const heavy = (ms: number) => (): readonly TracedDispatch[] => [
    { id: 'layers.0.ffn.down', kernel: 'my-down', ms, flops: 1e9, bytes: 1e8 },
  ];

  it('a decode that is faster than its bytes can be read', async () => {
    const { result } = await bench({ tokenMs: 8, speedup: 2.2, components: () => heavy(6)() });
    expect(result.verdict).toBe('suspect');
    expect(result.decode.map(({ verdict }) => verdict)).toEqual(['suspect', 'suspect', 'suspect']);
    expect(result.warnings).toContain(
      "decode at 32: the bound kernels are faster than the adapter's measured peaks allow",
    );
    const honest = await bench({ tokenMs: 8, speedup: 1.5, components: () => heavy(6)() });
    expect(honest.result.verdict).toBe('faster');
  });

  it('a prompt that is faster than its arithmetic', async () => {
    // 64 tokens of 1 GFLOP at 400 GFLOP/s: 160 ms.
    const { result } = await bench({ tokenMs: 20, speedup: 2.2, components: () => heavy(6)() });
    expect(result.prefill.verdict).toBe('suspect');
    expect(result.verdict).toBe('faster');
  });

  it('a component that is faster than its bytes can be read', async () => {
    const { result } = await bench({
      tokenMs: 20,
      speedup: 1.2,
      components: (arm) => heavy(arm === 'bound' ? 1 : 8)(),
    });
    expect(result.verdict).toBe('suspect');
    expect(result.warnings).toContain("layers.0.ffn.down: faster than the adapter's measured peaks allow");
  });

  it('nothing if the built-in kernels exceed the peaks too, or if it is not faster', async () => {
    const beyond = await bench({ tokenMs: 1, speedup: 1.2, components: () => heavy(1)() });
    expect(beyond.result.verdict).toBe('faster');
    const { result } = await bench({ tokenMs: 20, components: (arm) => heavy(arm === 'bound' ? 1 : 8)() });
    expect(result.verdict).toBe('no_difference');
  });

  it('kernels with different outputs', async () => {
    const { result } = await bench({ speedup: 1.5, answer: (token) => token + 1 });
    expect(result.verdict).toBe('suspect');
    expect(result.prefill.verdict).toBe('suspect');
    expect(result.warnings.join()).toMatch(
      /near the start of the context, .* 0 of 24 greedy tokens are the same/,
    );
    expect(result.prefill.outputs).toMatchObject({ timed_tokens: 8, timed_same: 0 });
    const equal = await bench({ answer: (token) => token + 1 });
    expect(equal.result.verdict).toBe('no_difference');
    // One warning for the start of the context, two for the prompts and for each context: of timed tokens and of logits.
    expect(equal.result.warnings).toHaveLength(1 + 2 + 2 * equal.result.decode.length);
  });

  it('kernels that are correct only outside of timed runs', async () => {
    const { result } = await bench({ speedup: 1.5, answer: (token, { timed }) => (timed ? 0 : token) });
    expect(result.verdict).toBe('suspect');
    expect(result.warnings[0]).toMatch(
      /after prompts of 64 tokens, 0 of 8 greedy tokens of the timed samples/,
    );
    expect(result.warnings).toHaveLength(1 + result.decode.length);
  });

  it('kernels that are wrong only at positions after the first of a timed sample', async () => {
    const { result } = await bench({
      speedup: 1.5,
      answer: (token, { position }) => ([32, 128, 512].includes(position) || position < 64 ? token : 0),
    });
    expect(result.verdict).toBe('suspect');
    expect(result.warnings.join()).toMatch(/at context 512, 8 of 64 greedy tokens of the timed samples/);
  });

  it('kernels that are correct only near the start of a text', async () => {
    const { result } = await bench({
      speedup: 1.5,
      answer: (token, { position }) => (position > 400 ? token + 1 : token),
    });
    expect(result.verdict).toBe('suspect');
    expect(result.warnings).toEqual([
      'outputs: at context 512, 0 of 64 greedy tokens of the timed samples are those of the baseline',
      'outputs: at context 512, the logits differ by 20 nats (worst 20), and 0 of 8 greedy tokens are the same',
    ]);
    expect(result.decode.at(-1)?.outputs).toMatchObject({ timed_tokens: 64, timed_same: 0 });
  });

  it('not kernels that differ occasionally because of almost equal logits', async () => {
    let answers = 0;
    const { result } = await bench({
      speedup: 1.5,
      answer: (token, { timed }) => (timed && ++answers % 10 === 0 ? token + 1 : token),
    });
    expect(result.verdict).toBe('faster');
    expect(result.warnings.join()).toMatch(/of 64 greedy tokens of the timed samples are those/);
  });

  it('kernels that differ in few timed tokens, more than their rounding explains', async () => {
    let answers = 0;
    const { result } = await bench({
      answer: (token, { timed }) => (timed && ++answers % 30 === 0 ? token + 1 : token),
    });
    expect(result.warnings.join()).toMatch(/6[12] of 64 greedy tokens of the timed samples are those/);
  });

  it('the bound kernels process what is compared before the built-in kernels, over other keys and values', async () => {
    const { calls } = await bench({}, { contexts: [40] });
    const compared = calls.filter(({ what }) => what.endsWith('Logits'));
    // Two parts of a context, two prompts, six parts of the start.
    expect(compared.map(({ arm }) => arm)).toEqual(
      Array.from({ length: 2 + 2 + 6 }, () => ['bound', 'baseline']).flat(),
    );
    for (const call of compared) {
      const before = calls[calls.indexOf(call) - 1];
      expect(before).toMatchObject({ what: 'fill', context: call.context });
      expect(before?.tokens.length).toBeGreaterThanOrEqual(call.tokens.length);
      expect(before?.tokens.slice(0, call.tokens.length)).not.toEqual(call.tokens);
    }
    const half = (arm: string) =>
      compared.filter((call) => call.arm === arm).map(({ context, tokens }) => [context, ...tokens]);
    expect(half('bound')).toEqual(half('baseline'));
  });
});

describe('the components of a bench', () => {
  it('are those of the bound arm with the time of the built-in kernels, then those that a span replaced', async () => {
    const { result } = await bench({
      components: (arm) =>
        arm === 'baseline'
          ? plainComponents()
          : [
              { id: 'layers.0.attn.qkv', kernel: 'my-qkv', ms: 0.1, flops: 2e6, bytes: 4e5 },
              { id: 'layers.0.attn.qkv', kernel: 'my-qkv', ms: 0.1, flops: 2e6, bytes: 4e5 },
              { id: 'layers.0.ffn.span', kernel: 'my-span', ms: 0.5, flops: 1e6, bytes: 4e6 },
            ],
    });
    const [first, second, ...gone] = result.components;
    expect(first).toEqual({
      id: 'layers.0.attn.qkv',
      kernel: 'my-qkv',
      gpu_ms: 0.2,
      baseline_ms: 0.4,
      gbps: 4,
      gflops: 20,
      bandwidth_fraction: 0.4,
      compute_fraction: 0.2,
      peak_fraction: 0.4,
      hint: expect.any(String) as string,
    });
    expect(second).toMatchObject({ id: 'layers.0.ffn.span', gpu_ms: 0.5, gbps: 8, peak_fraction: 0.8 });
    expect(second).not.toHaveProperty('baseline_ms');
    expect(gone.map(({ id, gpu_ms }) => [id, gpu_ms])).toEqual([
      ['embed', 0],
      ['layers.0.ffn.down', 0],
      ['layers.1.attn.qkv', 0],
      ['layers.1.ffn.down', 0],
      ['logits', 0],
    ]);
  });

  it('have the median of several traces', async () => {
    let traces = 0;
    const { result } = await bench({
      components: () => [{ id: 'logits', kernel: 'k', ms: traces++ % 5 === 0 ? 9 : 0.5, flops: 1, bytes: 1 }],
    });
    expect(result.components[0]).toMatchObject({ gpu_ms: 0.5, baseline_ms: 0.5 });
  });
});
