/** The turnstile before the one resident model, by itself: who is let in when, and how often the model changes. */
import { describe, expect, it } from 'vitest';
import { Turnstile } from '../../src/planes/turnstile.ts';

/** A hall with one model at a time; a visit lasts until it is ended. */
function hall(first: string | undefined) {
  let current = first;
  const changes: string[] = [];
  const turnstile = new Turnstile<string>({
    current: () => (current === undefined ? undefined : { location: current, model: current }),
    change: async (location) => {
      changes.push(location);
      current = undefined;
      await Promise.resolve();
      if (location === 'broken') {
        current = first;
        throw new Error('it is broken');
      }
      current = location;
    },
    idle: () => false,
    empty: () => new Error('there is no model'),
  });
  const visit = (wanted: string | undefined) => {
    const over = Promise.withResolvers<void>();
    const leave = new AbortController();
    const model = turnstile.enter(wanted, { signal: leave.signal, over: over.promise });
    return { model, end: () => over.resolve(), leave: () => leave.abort(new Error('gone')) };
  };
  return { visit, changes };
}

const settled = () => new Promise((resolve) => setImmediate(resolve));

describe('Turnstile', () => {
  it('changes the model once a round, however mixed the requests that wait are', async () => {
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

  it('lets nobody pass who came later, not even to the model that is there', async () => {
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

  it('forgets who leaves, and changes nothing for nobody', async () => {
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

  it('tells all who wait for a model why it cannot be had, and goes on', async () => {
    const { visit } = hall('a');
    const first = visit('a');
    await first.model;
    const broken = [visit('broken'), visit('broken')];
    const after = visit('a');
    first.end();
    for (const { model } of broken) await expect(model).rejects.toThrow('it is broken');
    expect(await after.model).toBe('a');
  });

  it('refuses who wants any model where there is none', async () => {
    await expect(hall(undefined).visit(undefined).model).rejects.toThrow('there is no model');
  });
});
