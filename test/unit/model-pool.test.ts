/** The model pool on its own: when requests are admitted, and which models are loaded and closed. */
import { describe, expect, it } from 'vitest';
import { ModelPool, type PoolPlaces } from '../../src/planes/model-pool.ts';

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

/** A pool whose models have sizes: `name:whole:least` bytes with the whole default context and with the smallest. */
function sized(memoryBytes: number, places: PoolPlaces) {
  const events: string[] = [];
  const open = new Map<string, number>();
  const free = () => memoryBytes - [...open.values()].reduce((sum, bytes) => sum + bytes, 0);
  class Shortage extends Error {
    readonly missingBytes: number;
    constructor(missingBytes: number) {
      super(`${missingBytes} bytes are missing`);
      this.missingBytes = missingBytes;
    }
  }
  const pool = new ModelPool<string>(
    {
      load: async (location, { isMain, keepsContext }) => {
        const [name = '', whole, least] = location.split(':');
        await Promise.resolve();
        const wanted = Number(
          keepsContext ? whole : Math.max(Number(least), Math.min(Number(whole), free())),
        );
        if (wanted > free()) throw new Shortage(wanted - free());
        open.set(name, wanted);
        events.push(`${isMain ? 'main ' : ''}${name} ${wanted}`);
        return name;
      },
      close: async (name) => {
        open.delete(name);
        events.push(`close ${name}`);
      },
      memoryBytes: (name) => open.get(name) ?? 0,
      isIdle: () => false,
      missingBytes: (error) => (error instanceof Shortage ? error.missingBytes : undefined),
      toLoadError: (_, error) => error,
      absenceError: () => new Error('there is no model'),
    },
    places,
  );
  open.set('a', 4);
  pool.add('a:4:4', 'a', 'main');
  const use = (location: string) =>
    pool.acquire(location, { signal: new AbortController().signal, finished: Promise.resolve() });
  return { pool, use, events };
}

describe('a pool where memory is short', () => {
  const three: PoolPlaces = { count: 3, canReplaceMain: false };

  it('closes models for the whole context of a newcomer', async () => {
    const { use, events } = sized(10, three);
    await use('b:5:1');
    await use('c:6:1');
    expect(events).toEqual(['b 5', 'close b', 'c 6']);
  });

  it('shrinks the context, and closes nothing, where closing would not make room for the whole', async () => {
    const { use, events } = sized(10, three);
    await use('b:2:1');
    await use('c:9:1');
    expect(events).toEqual(['b 2', 'c 4']);
  });

  it('closes models where even the smallest context needs their room, and takes what is left', async () => {
    const { use, events } = sized(10, three);
    await use('b:4:1');
    await use('c:20:5');
    expect(events).toEqual(['b 4', 'close b', 'c 6']);
  });

  it('closes nothing for a model that never fits', async () => {
    const { use, events, pool } = sized(10, three);
    await use('b:4:1');
    await expect(use('c:20:9')).rejects.toThrow('7 bytes are missing');
    expect(events).toEqual(['b 4']);
    expect(pool.models).toEqual(['a', 'b']);
  });

  it('replaces the main model where it may and must, with a main model', async () => {
    const { use, events, pool } = sized(10, { count: 3, canReplaceMain: true });
    await use('b:4:1');
    await use('c:5:5');
    expect(events).toEqual(['b 4', 'close a', 'main c 5']);
    expect(pool.main).toBe('c');
  });

  it('loads the main model again where the one that replaced it fails after all', async () => {
    const { use, events, pool } = sized(10, { count: 1, canReplaceMain: true });
    await expect(use('c:20:11')).rejects.toThrow('1 bytes are missing');
    expect(events).toEqual(['close a', 'main a 4']);
    expect(pool.main).toBe('a');
  });
});
