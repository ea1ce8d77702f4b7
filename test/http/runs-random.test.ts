/** Invariants of random workflows that are paused, resumed, cancelled and killed at random. */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import type { RunEvent } from '../../src/agent/shapes/run.ts';
import { toAgentEvent } from '../../src/agent/event-feed.ts';
import { describeDatabases } from '../support/databases.ts';
import {
  agents,
  PersistentWorld,
  type RunHost,
  runWorlds,
  ShiftedClock,
  step,
} from '../support/run-world.ts';
import { createSpanRecorder } from '../support/span-recorder.ts';

interface StepPlan {
  readonly needs: readonly number[];
  readonly prompt: string;
  readonly skipped: boolean;
  readonly attempts: number;
  readonly gate: string;
  /** Repeated for each item of a list. */
  readonly items: number;
  /** Runs a workflow of one step that has the prompt. */
  readonly isNested: boolean;
}

/** Actions between two reads of the run. */
type Move = 'pause' | 'resume' | 'cancel' | 'kill' | 'stop' | 'nothing';

const stepPlan = (index: number): fc.Arbitrary<StepPlan> =>
  fc.record({
    needs: index === 0 ? fc.constant([]) : fc.uniqueArray(fc.nat({ max: index - 1 }), { maxLength: 3 }),
    prompt: fc.constantFrom(...prompts),
    skipped: fc.boolean().map((skipped) => skipped && index % 2 === 1),
    attempts: fc.integer({ min: 1, max: 2 }),
    gate: fc.constantFrom('', '', '', 'approval', 'input', 'event'),
    items: fc.constantFrom(0, 0, 0, 1, 3),
    isNested: fc.constantFrom(false, false, true),
  });
const plan = fc
  .integer({ min: 1, max: 6 })
  .chain((count) => fc.tuple(...Array.from({ length: count }, (_, at) => stepPlan(at))));
const parallel = fc.constantFrom(1, 1, 2, 4);
const moves = fc.array(
  fc.constantFrom<Move>('pause', 'resume', 'cancel', 'kill', 'stop', 'nothing', 'nothing'),
  { maxLength: 6 },
);

const gates: Readonly<Record<string, string>> = {
  approval: 'gate = { kind = "approval" }',
  input: 'gate = { kind = "input" }',
  event: 'gate = { kind = "event", name = "user.go" }',
};
const prompts = ['say x', 'say y', 'effect\nsay z', 'fail 1 times\nsay w', 'fail always', 'stage'];
const toml = (steps: readonly StepPlan[], order: readonly number[]) =>
  '[inputs.xs]\ntype = "array"\ndefault = [[], [1], [1, 2], [1, 2, 3]]\n' +
  agents +
  order
    .map((at) => {
      const { needs, prompt, skipped, attempts, gate, items, isNested } = steps[at] as StepPlan;
      const more = [
        `needs = ${JSON.stringify(needs.map((need) => `s${need}`))}`,
        `retry = { attempts = ${attempts} }`,
        ...(skipped ? ['when = "false"'] : []),
        ...(gate === '' ? [] : [gates[gate] ?? '']),
        ...(items === 0 ? [] : [`foreach = "inputs.xs.${items}"`]),
      ];
      return isNested
        ? `[[steps]]\nid = "s${at}"\nworkflow = "p${prompts.indexOf(prompt)}"\n${more.join('\n')}\n`
        : step(`s${at}`, prompt, more.join('\n'));
    })
    .join('');

describeDatabases('random runs', (url) => {
  const open = runWorlds();

  it('keep the order of needs, lose no event, end each segment once, and free the slot', async () => {
    const address = await url();
    const clock = new ShiftedClock();
    const outside = new PersistentWorld();
    const seen = createSpanRecorder();
    const next = async () => await open(outside, { url: address, clock, tracer: seen.tracer });
    for (const [at, prompt] of prompts.entries())
      outside.define(`p${at}`, agents + step('x', prompt, 'retry = { attempts = 2 }'));
    let host = await next();
    let made = 0;
    await fc.assert(
      fc.asyncProperty(
        plan,
        parallel,
        fc.infiniteStream(fc.nat()),
        moves,
        async (steps, atOnce, dice, people) => {
          const order = steps.map((_, at) => at).sort(() => (dice.next().value % 2 === 0 ? 1 : -1));
          const name = `w${made++}`;
          outside.define(name, toml(steps, order), `parallel = ${atOnce}\n`);
          const id = await host.begin(name);
          const left = [...people];
          for (let looks = 0; ; looks += 1) {
            const { state, waiting_on } = await host.detail(id);
            if (state === 'completed' || state === 'failed' || state === 'cancelled') break;
            if (looks > 400) throw new Error(`it stays ${state}, waiting on ${waiting_on ?? 'nothing'}`);
            const move = left.shift();
            if (move === 'kill' || move === 'stop') {
              await host[move]();
              host = await next();
            } else if (move === 'cancel') await host.json('POST', `sessions/${id}/cancel`);
            else if (move !== undefined && move !== 'nothing') await host.json('POST', `runs/${id}/${move}`);
            else await helpOn(host, id, dice);
          }
          await invariants(host, id, steps);
          // The span ends after the end is stored.
          await expect.poll(() => seen.ended.length).toBe(seen.started.length);
          seen.expectAllEnded();
          expect(seen.spansOf('run').at(-1)?.id).toBe(id);
        },
      ),
      { numRuns: 25 },
    );
  });
});

/** Eventually gives a waiting run what it needs to continue. */
async function helpOn(host: RunHost, id: string, dice: fc.Stream<number>): Promise<void> {
  const { state, waiting_on } = await host.detail(id);
  for (const { id: question } of await host.pending())
    await host.json('POST', `pending/${question}/${dice.next().value % 4 === 0 ? 'discard' : 'approve'}`);
  if (state === 'paused') await host.json('POST', `runs/${id}/resume`);
  if (waiting_on === 'input') await host.json('POST', `runs/${id}/resume`, { inputs: {} });
  if (waiting_on === 'event') await host.json('POST', 'events', { name: 'user.go' });
}

async function invariants(host: RunHost, id: string, steps: readonly StepPlan[]): Promise<void> {
  const lines = await host.events(id);
  const detail = await host.detail(id);
  expect(lines.map(({ seq }) => seq)).toEqual(lines.map((_, at) => at));
  // Segments: each begins once and ends once, and nothing is between them.
  let isOpen = false;
  for (const { type } of lines) {
    expect(type === 'run_start').toBe(!isOpen);
    isOpen = type !== 'run_end';
  }
  expect(isOpen).toBe(false);
  const ends = lines.filter((line) => line.type === 'run_end');
  expect(ends.slice(0, -1).every(({ outcome }) => outcome === 'suspended')).toBe(true);
  expect(ends.at(-1)?.outcome).toBe(detail.state);
  expect(detail.outcome).toBe(detail.state);

  const over = new Map<string, string>();
  for (const line of lines) follow(line, steps, over);
  // The journal equals the stream.
  for (const record of detail.step_records)
    if (over.has(record.id)) expect(record.state).toBe(over.get(record.id));
    else expect(['failed', 'cancelled']).toContain(record.state);
  const ended = [...over.keys()].filter((one) => /^s\d+$/.test(one));
  if (detail.state === 'completed') expect(ended).toHaveLength(steps.length);
  for (const [at, { skipped }] of steps.entries())
    if (skipped) expect(over.get(`s${at}`) ?? 'skipped').toBe('skipped');

  // The feed equals the stream; a run that is cancelled at its gate gets a segment without being resumed.
  const signals = await host.store.read((db) => host.signals.after(db, 0, 1_000_000));
  const events = signals.map(toAgentEvent).filter((event) => event?.data.id === id);
  const resumed = events.filter((event) => event?.type === 'run.resumed').length;
  const starts = lines.filter(({ type }) => type === 'run_start').length - 1;
  expect([starts, starts - 1]).toContain(resumed);
  expect(
    events.flatMap((event) => {
      if (!event || event.type === 'run.resumed') return [];
      const { step: at, outcome, waiting_on: on, pending_id } = event.data;
      return event.type === 'run.suspended'
        ? textOf(event.type, on)
        : textOf(event.type, at, outcome, on, pending_id);
    }),
  ).toEqual(lines.flatMap((line, at) => eventOf(line, at === 0)));
  const changes = await host.store.read((db) =>
    db.selectFrom('pending').select(['id', 'state']).where('run_id', '=', id).execute(),
  );
  for (const change of changes)
    expect(
      signals.flatMap((signal) => {
        const event = toAgentEvent(signal);
        return event?.data.id === change.id ? [event.data.state] : [];
      }),
    ).toEqual(['staged', change.state]);

  expect((await host.json('GET', `sessions/${id}/receipt`)).body).toMatchObject({ outcome: detail.state });
  expect((await host.pending()).filter((one) => (one as { run_id?: string }).run_id === id)).toEqual([]);
  expect(host.faults).toEqual([]);
}

/** What the feed says of a line. */
function eventOf(line: RunEvent, isFirst: boolean): readonly string[] {
  if (line.type === 'run_start' && isFirst) return textOf('run.started');
  if (line.type === 'step_waiting') return textOf('run.waiting', line.step, line.waiting_on, line.pending_id);
  if (line.type === 'step_end') return textOf('run.step_ended', line.step, line.outcome);
  if (line.type !== 'run_end') return [];
  return line.outcome === 'suspended'
    ? textOf('run.suspended', line.waiting_on)
    : textOf(`run.${line.outcome}`, line.outcome);
}
const textOf = (...words: readonly (string | undefined)[]): readonly string[] => [
  words.filter((word) => word !== undefined).join(' '),
];

/** A step begins when all of its needs have ended, and ends once. */
function follow(line: RunEvent, steps: readonly StepPlan[], over: Map<string, string>): void {
  if (!('step' in line)) return;
  expect(over.has(line.step)).toBe(false);
  const { needs } = steps[Number(/^s(\d+)/.exec(line.step)?.[1])] as StepPlan;
  for (const need of needs) expect(['completed', 'skipped']).toContain(over.get(`s${need}`));
  if (line.type === 'step_end') over.set(line.step, line.outcome);
}
