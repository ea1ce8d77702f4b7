import type { KeyObject } from 'node:crypto';
import { expect } from 'vitest';
import { storedReceipts, verifyReceipts } from '../../../src/agent/receipts/verify-receipts.ts';
import type { Store } from '../../../src/store/index.ts';

/** Invariants of the database of an idle host after any kills. */
export async function expectInvariants(store: Store, key: KeyObject, about: string): Promise<void> {
  const found = await store.transaction(async (tx) => ({
    tasks: await tx.selectFrom('tasks').select(['id', 'n', 'state', 'session_id']).orderBy('n').execute(),
    runs: await tx.selectFrom('runs').select(['id', 'state', 'session_id']).execute(),
    acts: await tx.selectFrom('acts').select('seq').orderBy('seq').execute(),
    signals: await tx.selectFrom('signals').select('seq').orderBy('seq').execute(),
    steps: await tx.selectFrom('run_steps').select(['run_id', 'step', 'state']).execute(),
    pending: await tx.selectFrom('pending').select(['n', 'state']).orderBy('n').execute(),
    externals: await tx.selectFrom('external_sessions').select(['id', 'ended_at']).execute(),
    sessions: await tx
      .selectFrom('store_sessions')
      .select(['id', 'seq', 'closed_at'])
      .orderBy('seq')
      .execute(),
    receipts: await tx.selectFrom('receipts').select('id').execute(),
    events: await tx
      .selectFrom('events')
      .select(['stream', 'seq', 'event'])
      .orderBy('stream')
      .orderBy('seq')
      .execute(),
  }));
  const counted = (rows: readonly unknown[]) => rows.map((_, index) => index + 1);
  const { tasks, runs, acts, pending, externals, sessions, receipts, events, signals, steps } = found;
  // Numbers are given out with what they number: none twice, none for nothing.
  expect(
    tasks.map((row) => row.n),
    `tasks (${about})`,
  ).toEqual(counted(tasks));
  expect(
    acts.map((row) => row.seq),
    `acts (${about})`,
  ).toEqual(counted(acts));
  expect(
    signals.map((row) => row.seq),
    `signals (${about})`,
  ).toEqual(counted(signals));
  expect(
    pending.map((row) => row.n),
    `pending (${about})`,
  ).toEqual(counted(pending));
  expect(
    sessions.map((row) => row.seq),
    `sessions (${about})`,
  ).toEqual(counted(sessions));

  // Nothing is in the middle of anything.
  expect(
    [...tasks, ...runs].filter((row) => row.state === 'running'),
    about,
  ).toEqual([]);
  expect(
    pending.filter((row) => row.state === 'applying'),
    about,
  ).toEqual([]);

  // What is over has its receipt, and nothing else has; its credential counts no more.
  const over = (row: { state: string }) => ['completed', 'failed', 'cancelled'].includes(row.state);
  const ended = [
    ...tasks.filter(over),
    ...runs.filter(over),
    ...externals.filter((row) => row.ended_at !== null),
  ];
  expect(receipts.map((row) => row.id).sort(), about).toEqual(ended.map((row) => row.id).sort());
  const closed = new Map(sessions.map((row) => [row.id, row.closed_at !== null]));
  for (const row of [...tasks, ...runs])
    expect(closed.get(row.session_id ?? ''), `the session of ${row.id} (${about})`).toBe(over(row));

  // No step is at work in a run that is over.
  const states = new Map(runs.map((row) => [row.id, row.state]));
  const open = steps.filter(
    ({ run_id, state }) =>
      over({ state: states.get(run_id) ?? '' }) && ['running', 'waiting', 'interrupted'].includes(state),
  );
  expect(open, `steps (${about})`).toEqual([]);

  // Streams have no holes, and one end.
  const streams = Map.groupBy(events, (row) => row.stream);
  expect([...streams.keys()].sort(), about).toEqual([...tasks, ...runs].map((row) => row.id).sort());
  for (const [stream, rows] of streams) {
    expect(
      rows.map((row) => row.seq),
      `${stream} (${about})`,
    ).toEqual(rows.map((_, index) => index));
    if (!stream.startsWith('t')) {
      expectSegments(rows, states.get(stream) ?? '', `the segments of ${stream} (${about})`);
      continue;
    }
    const ends = rows.filter(({ event }) => /^\{"type":"(?:answer|aborted)"/.test(event));
    expect(
      ends.map((row) => row.seq),
      `the ends of ${stream} (${about})`,
    ).toEqual([rows.length - 1]);
  }
  expect(await verifyReceipts(storedReceipts(store), key), about).toEqual({
    ok: true,
    receipts: receipts.length,
  });
}

/** The events of a run form consecutive segments; only the last may be open, and only while the run is live. */
function expectSegments(rows: readonly { readonly event: string }[], state: string, message: string): void {
  const marks = rows
    .map(({ event }) => JSON.parse(event) as { type: string; outcome?: string })
    .filter(({ type }) => type === 'run_start' || type === 'run_end');
  expect(
    marks.map(({ type }) => type),
    message,
  ).toEqual(marks.map((_, index) => (index % 2 === 0 ? 'run_start' : 'run_end')));
  const ends = marks.filter(({ type }) => type === 'run_end');
  const isOpen = state === 'paused';
  expect(marks.length, message).toBe(2 * ends.length + (isOpen ? 1 : 0));
  if (!isOpen) expect(ends.at(-1)?.outcome, message).toBe(state);
}

/** How often each act was made, refused ones too. */
export async function actsByVerb(store: Store): Promise<Record<string, number>> {
  const rows = await store.read((db) => db.selectFrom('acts').select('verb').execute());
  const counts = Map.groupBy(rows, ({ verb }) => verb);
  return Object.fromEntries([...counts].map(([verb, all]) => [verb, all.length]));
}
