import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Embedder, type EmbeddingRunner } from '../../src/engine/scheduling/embedder.ts';
import type { Embedding } from '../../src/engine/graph/graph.ts';
import type { Capacity } from '../../src/engine/memory/memory.ts';
import { StepInput, stepLayout } from '../../src/engine/execution/step.ts';

interface Limits extends Pick<Capacity, 'context' | 'slots' | 'stepTokens' | 'pages'> {
  whole: boolean;
  bidirectional?: boolean;
}

/** One text's part of a step, as seen by the GPU. */
interface Part {
  slot: number;
  first: number;
  ids: number[];
}

const tileTokens = 8;

/** A runner that computes the sum of a text's ids and their number, and records its calls. */
function simulated(limits: Limits) {
  const { whole, bidirectional = whole, ...capacity } = limits;
  const embedding: Embedding = {
    pooling: 'mean',
    dimensions: 2,
    from: 'last',
    requiresWholeSequence: whole,
    bidirectional,
  };
  const layout = stepLayout({ slots: capacity.slots, tokens: capacity.stepTokens, tileTokens });
  const tables = new Map<number, readonly number[]>();
  /** Ids stored on a page, by position. */
  const cache = new Map<number, number[]>();
  const steps: { parts: Part[]; samples: number; tokens: number }[] = [];
  const gates: (() => void)[] = [];
  let held = false;
  let broken: Error | undefined;
  const runner: EmbeddingRunner = {
    memory: { capacity },
    graph: { shape: { embedding } },
    newStep: () => new StepInput(layout, { tileTokens, splitTokens: 512 }),
    setPages: (slot, pages) => void tables.set(slot, [...pages]),
    async embed(step) {
      const words = step.bytes().slice();
      const { tokens, samples, wideTiles } = step.dims;
      const parts = new Map<number, Part>();
      for (let row = 0; row < tokens; row++) {
        const at = layout.tokens / 4 + row * 4;
        const [id = 0, position = 0, slot = 0] = words.subarray(at, at + 3);
        const part = parts.get(slot) ?? { slot, first: position, ids: [] };
        expect(position).toBe(part.first + part.ids.length);
        part.ids.push(id);
        parts.set(slot, part);
        const page = tables.get(slot)?.[position >> 5];
        expect(page).toBeDefined();
        const kept = cache.get(page as number) ?? [];
        kept[position & 31] = id;
        cache.set(page as number, kept);
      }
      for (let tile = 0; tile < wideTiles; tile++) {
        const at = layout.wideTiles / 4 + tile * 4;
        const [row = 0, packed = 0, slot = 0, first = 0] = words.subarray(at, at + 4);
        const part = parts.get(slot) as Part;
        expect(row).toBeLessThan(tokens);
        expect(packed >>> 16).toBe(bidirectional ? part.ids.length : 0);
        expect(first + (packed & 0xffff)).toBeLessThanOrEqual(part.first + part.ids.length);
      }
      steps.push({ parts: [...parts.values()], samples, tokens });
      const rows = Array.from({ length: samples }, (_, n) => {
        const at = layout.samples / 4 + n * 12;
        const [slot = 0, length = 0] = [words[at + 1], words[at + 4]];
        const pages = tables.get(slot) ?? [];
        const ids = Array.from(
          { length },
          (__, p) => cache.get(pages[p >> 5] as number)?.[p & 31] ?? Number.NaN,
        );
        return Float32Array.of(
          ids.reduce((sum, id) => sum + id, 0),
          length,
        );
      });
      if (held) await new Promise<void>((resolve) => gates.push(resolve));
      else await Promise.resolve();
      if (broken) throw broken;
      return rows;
    },
  };
  const failures: string[] = [];
  const embedder = new Embedder(runner, {
    withDevice: (work) => work(),
    onFailure: (reason) => failures.push(reason),
  });
  return {
    embedder,
    steps,
    failures,
    hold: () => (held = true),
    release: () => {
      held = false;
      for (const open of gates.splice(0)) open();
    },
    fail: (error: Error) => (broken = error),
  };
}

const textOf = (length: number, seed: number) => Array.from({ length }, (_, i) => ((i + seed) * 7) % 100);
const rowOf = (ids: readonly number[]) =>
  Float32Array.of(
    ids.reduce((sum, id) => sum + id, 0),
    ids.length,
  );

describe('the embedder', () => {
  it('computes the row of every text of every request, with any limits', async () => {
    const limits = fc.record({
      slots: fc.integer({ min: 1, max: 6 }),
      context: fc.integer({ min: 1, max: 150 }),
      spare: fc.integer({ min: 0, max: 40 }),
      whole: fc.boolean(),
    });
    const requests = fc.array(fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 9 }), {
      maxLength: 6,
    });
    await fc.assert(
      fc.asyncProperty(limits, requests, async ({ slots, context, spare, whole }, shares) => {
        const stepTokens = whole ? context + spare : Math.max(1, spare);
        const own = Math.ceil(context / 32);
        const pages = whole ? Math.ceil(stepTokens / 32) + slots : own + 1;
        const { embedder, steps } = simulated({ slots, context, stepTokens, pages, whole });
        const inputs = shares.map((list, r) =>
          list.map((share, n) => textOf(1 + Math.floor(share * (context - 1)), r * 31 + n)),
        );
        const answers = await Promise.all(inputs.map((list) => embedder.embed(list)));
        expect(answers).toEqual(inputs.map((list) => list.map(rowOf)));
        for (const step of steps) {
          expect(step.tokens).toBeLessThanOrEqual(stepTokens);
          expect(step.parts.length).toBeLessThanOrEqual(slots);
          if (whole) expect(step.samples).toBe(step.parts.length);
        }
        expect(embedder).toMatchObject({ running: 0, waiting: 0 });
      }),
      { numRuns: 200 },
    );
  });

  it('fills a step with texts of several requests in turn', async () => {
    const limits = { slots: 4, context: 32, stepTokens: 32, pages: 8, whole: true };
    const { embedder, steps, hold, release } = simulated(limits);
    hold();
    const big = embedder.embed(Array.from({ length: 40 }, (_, n) => textOf(8, n)));
    const small = embedder.embed([textOf(8, 100)]);
    release();
    expect(await small).toEqual([rowOf(textOf(8, 100))]);
    // Two steps were in flight before the small request arrived; it is in the next one.
    expect(steps.length).toBeLessThanOrEqual(6);
    await big;
    expect(steps.slice(0, 9).every(({ parts }) => parts.length === 4)).toBe(true);
    expect(steps).toHaveLength(11);
  });

  it('gives short texts priority in a step that long texts share', async () => {
    const { embedder, steps } = simulated({
      slots: 3,
      context: 1000,
      stepTokens: 30,
      pages: 100,
      whole: false,
    });
    const long = embedder.embed([textOf(900, 1)]);
    const short = embedder.embed([textOf(9, 2)]);
    expect(await short).toEqual([rowOf(textOf(9, 2))]);
    expect(steps.length).toBeLessThan(8);
    expect(await long).toEqual([rowOf(textOf(900, 1))]);
    expect(Math.max(...steps.map(({ tokens }) => tokens))).toBe(30);
  });

  it('drops an aborted request, and reuses its slots and pages', async () => {
    const { embedder, steps } = simulated({
      slots: 1,
      context: 1000,
      stepTokens: 10,
      pages: 33,
      whole: false,
    });
    const controller = new AbortController();
    const dropped = embedder.embed([textOf(1000, 1), textOf(1000, 2)], controller.signal);
    const next = embedder.embed([textOf(20, 3)]);
    const reason = new Error('enough');
    controller.abort(reason);
    await expect(dropped).rejects.toBe(reason);
    expect(await next).toEqual([rowOf(textOf(20, 3))]);
    expect(steps.length).toBeLessThan(8);
    expect(embedder).toMatchObject({ running: 0, waiting: 0 });
  });

  it('fails all requests when a step fails, and reports it once', async () => {
    const { embedder, failures, fail } = simulated({
      slots: 1,
      context: 8,
      stepTokens: 8,
      pages: 4,
      whole: true,
    });
    fail(new Error('no device'));
    const all = [embedder.embed([[1], [2], [3]]), embedder.embed([[4]])];
    for (const one of all) await expect(one).rejects.toMatchObject({ code: 'device_lost' });
    expect(failures).toEqual(['no device']);
  });

  it('rejects with the reason passed to stop', async () => {
    const { embedder, hold, release } = simulated({
      slots: 1,
      context: 8,
      stepTokens: 8,
      pages: 4,
      whole: true,
    });
    hold();
    const running = embedder.embed([[1], [2], [3]]);
    const reason = new Error('shutting down');
    embedder.stop(reason);
    await expect(running).rejects.toBe(reason);
    release();
    expect(embedder).toMatchObject({ running: 0, waiting: 0 });
  });

  it('rejects at once after stop, or with a signal that is already aborted', async () => {
    const { embedder, steps } = simulated({ slots: 1, context: 8, stepTokens: 8, pages: 4, whole: true });
    const aborted = new Error('too late');
    await expect(embedder.embed([[1]], AbortSignal.abort(aborted))).rejects.toBe(aborted);
    const reason = new Error('shutting down');
    embedder.stop(reason);
    await expect(embedder.embed([[1]])).rejects.toBe(reason);
    await expect(embedder.embed([])).rejects.toBe(reason);
    expect(embedder).toMatchObject({ running: 0, waiting: 0 });
    expect(steps).toEqual([]);
  });
});
