/** The model pool on its own: when requests are admitted, and which models are loaded and closed. */
import { describe, expect, it } from 'vitest';
import { ModelPool } from '../../src/planes/model-pool.ts';

/** A pool for one model; a lease lasts until it is ended. */
function hall(first: string | undefined) {
  const changes: string[] = [];
  let failures = 0;
  const pool = new ModelPool<string>(
    {
      load: async (location) => {
        // The model that was closed for a broken one is loaded again.
        if (failures === 0) changes.push(location);
        failures = 0;
        await Promise.resolve();
        if (location !== 'broken') return location;
        failures = 1;
        throw new Error('it is broken');
      },
      close: () => Promise.resolve(),
      memoryBytes: () => 1,
      isIdle: () => false,
      missingBytes: () => undefined,
      toLoadError: (_, error) => error,
      absenceError: () => new Error('there is no model'),
    },
    { count: 1, canReplaceMain: true },
  );
  if (first !== undefined) pool.add(first, first, 'main');
  const visit = (wanted: string | undefined) => {
    const over = Promise.withResolvers<void>();
    const leave = new AbortController();
    const model = pool.acquire(wanted, { signal: leave.signal, finished: over.promise });
    return { model, end: () => over.resolve(), leave: () => leave.abort(new Error('gone')) };
  };
  return { visit, changes };
}

const settled = () => new Promise((resolve) => setImmediate(resolve));

describe('a pool for one model', () => {
  it('swaps the model once per round, however mixed the waiting requests are', async () => {
    const { visit, changes } = hall('a');
    const held = visit('a');
    await held.model;
    const waiting = Array.from({ length: 60 }, (_, index) => 'bca'[index % 3] ?? 'a').map((wanted) => ({
      wanted,
      ...visit(wanted),
    }));
    held.end();
    const got = await Promise.all(
      waiting.map(async ({ model, end }) => {
        const mine = await model;
        end();
        return mine;
      }),
    );
    expect(got).toEqual(waiting.map(({ wanted }) => wanted));
    expect(changes).toEqual(['b', 'c', 'a']);
  });

  it('admits no later request before earlier ones, not even to the resident model', async () => {
    const { visit, changes } = hall('a');
    const first = visit('a');
    await first.model;
    const other = visit('b');
    const later = visit('a');
    let isIn = false;
    void later.model.then(() => {
      isIn = true;
    });
    await settled();
    expect(isIn).toBe(false);
    first.end();
    expect(await other.model).toBe('b');
    other.end();
    expect(await later.model).toBe('a');
    expect(changes).toEqual(['b', 'a']);
  });

  it('drops requests that were aborted, and swaps for none of them', async () => {
    const { visit, changes } = hall('a');
    const first = visit('a');
    await first.model;
    const other = visit('b');
    const later = visit('a');
    other.leave();
    await expect(other.model).rejects.toThrow('gone');
    expect(await later.model).toBe('a');
    first.end();
    later.end();
    await settled();
    expect(changes).toEqual([]);
  });

  it('rejects all requests for a model that cannot be loaded with the reason, and continues', async () => {
    const { visit } = hall('a');
    const first = visit('a');
    await first.model;
    const broken = [visit('broken'), visit('broken')];
    const after = visit('a');
    first.end();
    for (const { model } of broken) await expect(model).rejects.toThrow('it is broken');
    expect(await after.model).toBe('a');
  });

  it('rejects a request for any model where none is resident', async () => {
    await expect(hall(undefined).visit(undefined).model).rejects.toThrow('there is no model');
  });
});
