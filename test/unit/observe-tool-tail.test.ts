import { rmSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import fc from 'fast-check';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { Observe } from '../../src/observe/observe.ts';
import type { Source } from '../../src/observe-tool/source.ts';
import { TailWindow } from '../../src/observe-tool/tail-window.ts';
import { completion, observing } from '../support/observe-host.ts';

let folder: string;
let path: string;
let observe: Observe;
let clock: number;
const undo: (() => unknown)[] = [];
/** Statements that still succeed. */
let left = Infinity;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'lathe-tail-'));
  path = join(folder, 'lathe.db');
  clock = Date.parse('2026-06-15T12:00:12.345Z');
  left = Infinity;
  ({ observe } = await observing(`sqlite:${path}`, undo, { now: () => new Date(clock) }));
});
afterEach(async () => {
  for (const step of undo.splice(0)) await step();
  rmSync(folder, { recursive: true });
});

const source = (): Source => {
  const withText = <T>(document: T) => ({ document, text: '' });
  return {
    surfaces: async () => withText(observe.surfaces()),
    schema: async (name) => withText(observe.schema(name)),
    async query(body) {
      left -= 1;
      if (left < 0) throw new Error('away');
      return withText(await observe.query(body, 'operator'));
    },
    ask: async (name, body) => withText(await observe.ask(name, body, 'operator')),
    close: () => Promise.resolve(),
  };
};
const ago = (ms: number) => new Date(clock - ms).toISOString();

function store(rows: readonly (readonly [id: string, startedAt: string])[]): void {
  const db = new DatabaseSync(path, { timeout: 60_000 });
  db.exec('begin');
  for (const [id, started_at] of rows) {
    const row = completion(id, { started_at });
    const names = Object.keys(row);
    db.prepare(
      `insert into completions (${names.map((name) => `"${name}"`).join(', ')}) values (${names.map(() => '?').join(', ')})`,
    ).run(...Object.values(row));
  }
  db.exec('commit');
  db.close();
}

const windowOn = (more: Partial<ConstructorParameters<typeof TailWindow>[2]> = {}) =>
  new TailWindow(source(), observe.schema('completions'), { where: [], select: ['id'], ...more });
const idsOf = ({ rows }: { readonly rows: readonly (readonly unknown[])[] }) =>
  rows.map(([id]) => String(id));

test('existing rows are not printed except the latest, and only the selected columns', async () => {
  store([
    ['old', ago(8 * 3_600_000)],
    ['edge', ago(6 * 3_600_000 + 1)],
    ['one', ago(60_000)],
    ['two', ago(1000)],
  ]);
  expect(idsOf(await windowOn().readInitial(0))).toEqual([]);
  expect(idsOf(await windowOn().readInitial(1))).toEqual(['two']);
  expect(idsOf(await windowOn().readInitial(3))).toEqual(['edge', 'one', 'two']);
  expect(idsOf(await windowOn().readInitial(9))).toEqual(['old', 'edge', 'one', 'two']);
  const { columns, rows } = await windowOn({ select: ['wire'] }).readInitial(1);
  expect(columns.map(({ name }) => name)).toEqual(['wire']);
  expect(rows).toEqual([['chat']]);
});

test('handles late rows, full pages and minutes with thousands of rows', async () => {
  store(Array.from({ length: 2500 }, (_, n) => [`a${n}`, ago(5000)] as const));
  const window = windowOn();
  await window.readInitial(0);
  expect(idsOf(await window.readNext())).toEqual([]);
  store([['late', ago(5 * 3_600_000)]]);
  store(Array.from({ length: 1500 }, (_, n) => [`b${n}`, ago(5000)] as const));
  const ids = idsOf(await window.readNext());
  expect(ids).toHaveLength(1501);
  expect(ids[0]).toBe('late');
  expect(new Set(ids).size).toBe(1501);
  expect(idsOf(await window.readNext())).toEqual([]);
});

test('a condition that a row comes to fit shows it then', async () => {
  const where = [{ column: 'outcome', op: 'eq', value: 'ok' }] as const;
  const window = windowOn({ where });
  await window.readInitial(0);
  store([['x', ago(0)]]);
  expect(idsOf(await window.readNext())).toEqual(['x']);
});

test('prints every row once, whenever it arrives and however often requests fail', async () => {
  let run = 0;
  await fc.assert(
    fc.asyncProperty(
      fc.array(
        fc.record({
          rows: fc.array(fc.integer({ min: 0, max: 5 * 3_600_000 }), { maxLength: 6 }),
          passes: fc.integer({ min: 0, max: 200_000 }),
          fails: fc.option(fc.integer({ min: 0, max: 3 })),
        }),
        { minLength: 1, maxLength: 8 },
      ),
      async (steps) => {
        run += 1;
        const where = [{ column: 'id', op: 'starts_with', value: `r${run}-` }] as const;
        const window = windowOn({ where });
        await window.readInitial(0);
        const stored: string[] = [];
        const shown: string[] = [];
        const look = async () => shown.push(...idsOf(await window.readNext()));
        for (const [n, { rows, passes, fails }] of steps.entries()) {
          clock += passes;
          const made = rows.map((ms, k) => [`r${run}-${n}-${k}`, ago(ms)] as const);
          store(made);
          stored.push(...made.map(([id]) => id));
          left = fails ?? Infinity;
          await look().catch((error: unknown) => expect(error).toMatchObject({ message: 'away' }));
          left = Infinity;
        }
        await look();
        expect(shown.sort()).toEqual(stored.sort());
      },
    ),
    { numRuns: 25 },
  );
});

test('narrows the window when queries take too long, without losing new rows', async () => {
  const window = windowOn();
  await window.readInitial(0);
  let length: number | undefined;
  for (let next = window.shrink(); next !== undefined; next = window.shrink()) length = next;
  expect(length).toBe(120_000);
  store([['new', ago(1000)]]);
  expect(idsOf(await window.readNext())).toEqual(['new']);
});
