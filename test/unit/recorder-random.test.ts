import fc from 'fast-check';
import { expect, it } from 'vitest';
import type { Recorder } from '../../src/recorder/recorder.ts';
import { defaultPolicy, type Policy } from '../../src/recorder/types.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { anEvent, armed, eventsOf, filesWith } from '../support/recorded.ts';
import { recorders } from '../support/recorders.ts';
import { rounds } from '../support/tier.ts';

const open = recorders();
const hour = 3_600_000;

const step = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constant('ingest' as const),
      ids: fc.array(fc.nat(60), { minLength: 1, maxLength: 12 }),
      length: fc.nat(1500),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('sweep' as const) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('purge' as const) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('reopen' as const) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('arm' as const), armed: fc.boolean() }) },
  {
    weight: 2,
    arbitrary: fc.record({ do: fc.constant('pass' as const), hours: fc.integer({ min: -30, max: 40 }) }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('policy' as const),
      content: fc.constantFrom('none' as const, 'metadata' as const, 'full' as const),
      retention: fc.record(
        {
          days: fc.integer({ min: 1, max: 3 }),
          bytes: fc.integer({ min: 1024, max: 20_000 }),
          events: fc.integer({ min: 1, max: 40 }),
        },
        { requiredKeys: [] },
      ),
      redact: fc.constantFrom([], ['planted\\d*[02468]!'], ['@credentials', '[p]lanted']),
    }),
  },
);

interface Known {
  readonly id: string;
  readonly mark: string;
  readonly content: string | null;
  readonly bytes: number;
  received: number;
}

/** What a rack has to do, without a disk. */
class Model {
  policy: Policy = defaultPolicy;
  armed = false;
  events: Known[] = [];
  /** Everything that must be in no file. */
  readonly gone = new Set<string>();

  sweep(now: number): void {
    this.#back(now);
    const { days, bytes, events } = this.policy.retention;
    while (
      this.events.length > events ||
      this.bytes > bytes ||
      (this.events[0]?.received ?? Infinity) < now - days * 24 * hour
    )
      this.#drop(this.events.shift());
  }

  purge(): void {
    for (const event of this.events.splice(0)) this.#drop(event);
  }

  add(events: readonly Omit<Known, 'received'>[], now: number): number {
    this.#back(now);
    const fresh = events.filter(
      ({ id }, index) =>
        !this.events.some((known) => known.id === id) &&
        events.findIndex((other) => other.id === id) === index,
    );
    for (const event of fresh) {
      this.events.push({ ...event, received: now });
      if (event.content?.includes(event.mark)) this.gone.delete(event.mark);
    }
    const { bytes, events: maxEvents } = this.policy.retention;
    if (this.events.length > maxEvents * 1.25 || this.bytes > bytes * 1.25) this.sweep(now);
    return fresh.length;
  }

  get bytes(): number {
    return this.events.reduce((sum, event) => sum + event.bytes, 0);
  }

  #back(now: number): void {
    for (const event of this.events) event.received = Math.min(event.received, now);
  }

  #drop(event: Known | undefined): void {
    if (event) this.gone.add(event.mark);
  }
}

it('any interleaving matches the reference model, and deleted data is in no file', async () => {
  let folders = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 30 }), async (steps) => {
      const name = `random${folders++}`;
      const clock = new ManualClock();
      const model = new Model();
      let { recorder, folder } = await open(name, { now: clock.now });
      const token = await armed(recorder, 'agent', { content: 'full' }, clock.now().getTime());
      const source = `token:${(await recorder.grants()).tokens[0]?.id}`;
      model.armed = true;
      model.policy = { ...defaultPolicy, content: 'full' };
      for (const each of steps) {
        const now = clock.now().getTime();
        if (each.do === 'pass') clock.pass(each.hours * hour);
        else if (each.do === 'sweep') {
          await recorder.sweep();
          model.sweep(now);
        } else if (each.do === 'purge') {
          expect((await recorder.purge('agent', 'bearer')).events).toBe(model.events.length);
          model.purge();
        } else if (each.do === 'reopen') {
          await recorder.close();
          recorder = (await open(name, { now: clock.now })).recorder;
          // It sweeps at its start.
          await recorder.sweep();
          model.sweep(now);
        } else if (each.do === 'arm') {
          await recorder.change('agent', { armed: each.armed }, 'bearer');
          model.armed = each.armed;
        } else if (each.do === 'policy') {
          const { content, retention, redact } = each;
          await recorder.change('agent', { policy: { content, retention, redact } }, 'bearer');
          model.policy = { content, redact, retention: { ...model.policy.retention, ...retention } };
          model.sweep(now);
        } else await ingest(recorder, token, each, model, { now, source });
        await expectSame(recorder, folder, model);
      }
      await recorder.close();
    }),
    { numRuns: rounds(12, 4) },
  );
});

async function ingest(
  recorder: Recorder,
  token: string,
  { ids, length }: { ids: readonly number[]; length: number },
  model: Model,
  { now, source }: { now: number; source: string },
) {
  const given = ids.map((n) => {
    const mark = `planted${n}!`;
    return { id: `e${n}`, mark, text: mark + 'y'.repeat(length) };
  });
  const ingesting = recorder.ingest(
    token,
    given.map(({ id, text }) => anEvent(id, { content: text })),
    'bearer',
  );
  if (!model.armed) {
    await expect(ingesting).rejects.toMatchObject({ code: 'rack_disarmed' });
    return;
  }
  const { content, redact } = model.policy;
  const expression = redact.find((known) => !known.startsWith('@'));
  const pattern = expression === undefined ? /(?!)/g : new RegExp(expression, 'g');
  const events = given.map(({ id, mark, text }) => {
    const kept = content === 'full' ? text.replaceAll(pattern, '[redacted]') : null;
    const attributes = content === 'none' ? '' : `{"content_bytes":${text.length}}`;
    const bytes = [id, 'message', '2030-01-01T00:00:00.000Z', source, attributes, kept ?? ''].join('').length;
    if (!model.events.some((known) => known.content?.includes(mark)) && !kept?.includes(mark))
      model.gone.add(mark);
    return { id, mark, content: kept, bytes };
  });
  const { accepted, duplicates } = await ingesting;
  const fresh = model.add(events, now);
  expect([accepted, duplicates]).toEqual([fresh, ids.length - fresh]);
}

async function expectSame(recorder: Recorder, folder: string, model: Model) {
  const rows = await eventsOf(recorder, 'agent');
  expect(rows.map((row) => [row['event_id'], row['content']])).toEqual(
    model.events.map(({ id, content }) => [id, content]),
  );
  const rack = await recorder.rack('agent');
  expect(rack).toMatchObject({ armed: model.armed, policy: model.policy, events: model.events.length });
  expect(rack.bytes).toBe(model.bytes);
  expect(filesWith(folder, ...model.gone)).toEqual([]);
}
