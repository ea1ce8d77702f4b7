import { DatabaseSync } from 'node:sqlite';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { captureSink } from '../../src/recorder/capture/sink.ts';
import { currentPath } from '../../src/recorder/histories/history-files.ts';
import type { ContentLevel, NewEvent } from '../../src/recorder/types.ts';
import {
  type CompletionAttributes,
  type SpanAttributes,
  type RackId,
  racks,
  type TranscriptEntry,
  Tracer,
  type TraceSpanKind,
} from '../../src/tracing/index.ts';
import { recorders } from '../support/recorders.ts';

/** A capture whose racks are armed or not, and what it gave to be stored. */
function capturing(armed: Partial<Record<RackId, ContentLevel>>) {
  const kept: { rack: RackId; events: readonly NewEvent[] }[] = [];
  const sink = captureSink({
    contentOf: (rack) => armed[rack],
    record: (rack, events) => kept.push({ rack, events }),
  });
  return { watch: new Tracer([sink]), kept, armed };
}

const now = new Date('2030-01-31T12:00:00.000Z');
const completionAttributes: CompletionAttributes = {
  wire: 'chat',
  operation: 'chat',
  by: 'local',
  stream: true,
};

function chat(watch: Tracer, id = 'chatcmpl-1') {
  const work = watch.startSpan(
    'completion',
    id,
    { ...completionAttributes, requestedModel: 'tiny', model: 'lathe-tiny' },
    { now },
  );
  work.addTranscriptEntry('system', () => 'be brief');
  work.addTranscriptEntry('user', () => 'what is the pass phrase?');
  work.addTranscriptEntry('reasoning', () => 'I know it');
  work.addTranscriptEntry('tool_call', () => '{"path":"notes"}', 'fs_read');
  work.addTranscriptEntry('tool', () => 'swordfish', 'fs_read');
  work.addTranscriptEntry('assistant', () => 'It is swordfish, naïvely.');
  Object.assign(work.attributes, {
    promptTokens: 12,
    completionTokens: 5,
    firstTokenMs: 1.23456,
    finish: 'stop',
  });
  work.end({ outcome: 'ok', status: 200 });
  return work;
}

describe('events captured from the planes', () => {
  it('are every text in order and then the completion, with policy full', () => {
    const { watch, kept } = capturing({ completions: 'full' });
    chat(watch);
    expect(kept.map(({ rack }) => rack)).toEqual(['completions']);
    const events = kept[0]?.events ?? [];
    expect(
      events.map(({ kind, role, content, attributes }) => [kind, role, content, attributes?.['name']]),
    ).toEqual([
      ['message', 'system', 'be brief', undefined],
      ['message', 'user', 'what is the pass phrase?', undefined],
      ['reasoning', 'assistant', 'I know it', undefined],
      ['tool_call', 'assistant', '{"path":"notes"}', 'fs_read'],
      ['tool_result', 'tool', 'swordfish', 'fs_read'],
      ['message', 'assistant', 'It is swordfish, naïvely.', undefined],
      ['completion', undefined, undefined, undefined],
    ]);
    expect(events.every(({ subject, model }) => subject === 'chatcmpl-1' && model === 'lathe-tiny')).toBe(
      true,
    );
    expect(events[5]?.attributes).toBeUndefined();
    expect(events[6]?.attributes).toEqual({
      wire: 'chat',
      operation: 'chat',
      by: 'local',
      stream: true,
      requested_model: 'tiny',
      prompt_tokens: 12,
      completion_tokens: 5,
      first_token_ms: 1.235,
      finish: 'stop',
      started_at: now.toISOString(),
      total_ms: expect.any(Number) as unknown,
      outcome: 'ok',
      status: 200,
    });
    expect(Date.parse(events[6]?.at ?? '')).toBeGreaterThanOrEqual(now.getTime());
  });

  it('have the same ids when the same span is recorded again, and different ones otherwise', () => {
    const { watch, kept } = capturing({ completions: 'full' });
    chat(watch);
    chat(watch);
    chat(watch, 'chatcmpl-2');
    const [first, again, other] = kept.map(({ events }) => events.map(({ id }) => id));
    expect(again).toEqual(first);
    expect(new Set([...(first ?? []), ...(other ?? [])]).size).toBe(14);
  });

  it('are none if the rack is disarmed, and no transcript is built', () => {
    const { watch, kept } = capturing({ agent: 'full', gateway: 'full' });
    const work = watch.startSpan('completion', 'c', { ...completionAttributes });
    work.addTranscriptEntry('user', () => {
      throw new Error('made without a consumer');
    });
    work.end({ outcome: 'ok' });
    expect(kept).toEqual([]);
  });

  it('are none if the rack was disarmed meanwhile', () => {
    const { watch, kept, armed } = capturing({ completions: 'full' });
    const work = watch.startSpan('completion', 'c', { ...completionAttributes }, { now });
    work.addTranscriptEntry('user', () => 'hush');
    delete armed.completions;
    work.end({ outcome: 'ok' });
    expect(kept).toEqual([]);
  });

  it('belong to the task or run that they are part of', () => {
    const { watch, kept } = capturing({ agent: 'full', workflows: 'full' });
    const task = watch.startSpan('task', 't1', { agent: 'default', engine: 'resident', model: 'm' }, { now });
    const turn = watch.startSpan(
      'turn',
      't1.1',
      { agent: 'default', engine: 'resident', model: 'm' },
      { parent: task, now },
    );
    turn.addTranscriptEntry('assistant', () => 'done');
    turn.end({ outcome: 'ok' });
    const tool = { tool: 'fs_read', agent: 'default', callId: 'call_1', toolKind: 'read' } as const;
    watch
      .startSpan('tool', 'call_1', tool, { parent: task, now })
      .end({ outcome: 'failed', code: 'no_file' });
    task.end({ outcome: 'ok' });
    const run = watch.startSpan('run', 'r1', { workflow: 'w' }, { now });
    const step = watch.startSpan('step', 'r1/build', { workflow: 'w', step: 'build' }, { parent: run, now });
    watch
      .startSpan('tool', 'call_2', { ...tool, callId: 'call_2' }, { parent: step, now })
      .end({ outcome: 'ok' });
    step.end({ outcome: 'ok' });
    run.end({ outcome: 'ok' });
    expect(
      kept.flatMap(({ rack, events }) =>
        events.map(({ id, kind, subject, attributes }) => [
          rack,
          kind,
          subject,
          id.replace(`:${now.getTime()}`, ''),
          attributes?.['id'],
        ]),
      ),
    ).toEqual([
      ['agent', 'message', 't1', 'turn:t1.1:0', undefined],
      ['agent', 'turn', 't1', 'turn:t1.1', 't1.1'],
      ['agent', 'tool', 't1', 'tool:call_1', 'call_1'],
      ['agent', 'task', 't1', 'task:t1', undefined],
      ['workflows', 'tool', 'r1', 'tool:call_2', 'call_2'],
      ['workflows', 'step', 'r1', 'step:r1/build', 'r1/build'],
      ['workflows', 'run', 'r1', 'run:r1', undefined],
    ]);
  });

  it('differ for equal ids at different times: segments of a run, tasks of another database', () => {
    const { watch, kept } = capturing({ workflows: 'metadata' });
    for (const minute of [0, 5])
      watch
        .startSpan('run', 'r1', { workflow: 'w' }, { now: new Date(now.getTime() + minute * 60_000) })
        .end({ outcome: 'ok' });
    expect(new Set(kept.flatMap(({ events }) => events.map(({ id }) => id))).size).toBe(2);
  });

  it('have the exact cost of a gateway request', () => {
    const { watch, kept } = capturing({ gateway: 'metadata' });
    const facts: SpanAttributes['gateway'] = { wire: 'openai-chat', operation: 'chat', stream: false };
    const work = watch.startSpan('gateway', 'req_1', facts, { now });
    Object.assign(work.attributes, { requestedModel: 'auto', effectiveModel: 'gpt', costNanousd: 2n ** 60n });
    work.end({ outcome: 'refused', status: 402, code: 'insufficient_allowance' });
    const [event] = kept[0]?.events ?? [];
    expect(event).toMatchObject({ kind: 'request', subject: 'req_1', model: 'gpt' });
    expect(event?.attributes).toMatchObject({
      requested_model: 'auto',
      cost_nanousd: 2n ** 60n,
      outcome: 'refused',
      code: 'insufficient_allowance',
    });
  });

  it('never have conversation content or unlisted facts in their attributes', () => {
    const kinds: TraceSpanKind[] = ['completion', 'task', 'run', 'step', 'turn', 'tool', 'gateway'];
    const roles: TranscriptEntry['role'][] = [
      'system',
      'user',
      'assistant',
      'reasoning',
      'tool_call',
      'tool',
    ];
    const message = fc.tuple(fc.constantFrom(...roles), fc.string());
    fc.assert(
      fc.property(
        fc.constantFrom(...kinds),
        fc.constantFrom<ContentLevel>('metadata', 'full'),
        fc.array(message),
        (kind, content, texts) => {
          const { watch, kept } = capturing(Object.fromEntries(racks.map((rack) => [rack, content])));
          const work = watch.startSpan(kind, 'id', { prompt: 'SAID in a fact' } as never);
          for (const [role, text] of texts) work.addTranscriptEntry(role, () => `SAID ${text}`);
          work.end({ outcome: 'ok' });
          const events = kept.flatMap((one) => one.events);
          expect(JSON.stringify(events.map((event) => ({ ...event, content: '' })))).not.toContain('SAID');
          const contents = content === 'full' ? texts.map(([, text]) => `SAID ${text}`) : [];
          expect(events.flatMap((event) => event.content ?? [])).toEqual(contents);
          expect(new Set(events.map(({ id }) => id)).size).toBe(events.length);
        },
      ),
    );
  });
});

describe('captured events in the histories', () => {
  const openRecorder = recorders();

  /** What a rack's file holds after every event is written. */
  async function historyOf({ recorder, folder }: Awaited<ReturnType<typeof openRecorder>>, rack: RackId) {
    await recorder.close();
    const path = currentPath(folder, rack);
    if (path === undefined) return [];
    const db = new DatabaseSync(path, { readOnly: true });
    const rows = db.prepare('select * from events order by seq').all();
    db.close();
    return rows.map(({ attributes, ...row }) => ({
      ...row,
      attributes: JSON.parse((attributes as string | null) ?? 'null') as Record<string, unknown> | null,
    })) as Readonly<Record<string, unknown> & { attributes: Record<string, unknown> | null }>[];
  }

  it('are complete with policy full, without secrets', async () => {
    const open = await openRecorder('full', { secrets: ['swordfish'] });
    await open.recorder.change('completions', { armed: true, policy: { content: 'full' } }, 'bearer');
    chat(new Tracer([open.recorder.sink]));
    const rows = await historyOf(open, 'completions');
    expect(rows.map(({ kind, role, content }) => [kind, role, content])).toEqual([
      ['message', 'system', 'be brief'],
      ['message', 'user', 'what is the pass phrase?'],
      ['reasoning', 'assistant', 'I know it'],
      ['tool_call', 'assistant', '{"path":"notes"}'],
      ['tool_result', 'tool', '[redacted]'],
      ['message', 'assistant', 'It is [redacted], naïvely.'],
      ['completion', null, null],
    ]);
    expect(rows.every(({ source, model }) => source === 'host' && model === 'lathe-tiny')).toBe(true);
    expect(rows[5]?.attributes).toEqual({ content_bytes: 26 });
    expect(rows[6]?.attributes).toMatchObject({ prompt_tokens: 12, outcome: 'ok' });
  });

  it('are numbers and names with policy metadata, and only their existence with none', async () => {
    for (const content of ['metadata', 'none'] as const) {
      const open = await openRecorder(content);
      await open.recorder.change('completions', { armed: true, policy: { content } }, 'bearer');
      expect(chat(new Tracer([open.recorder.sink])).transcript).toBeUndefined();
      const rows = await historyOf(open, 'completions');
      expect(rows).toHaveLength(1);
      expect(rows[0]).toMatchObject({
        event_id: `completion:chatcmpl-1:${now.getTime()}`,
        subject: 'chatcmpl-1',
        content: null,
      });
      if (content === 'none') expect(rows[0]).toMatchObject({ model: null, attributes: null });
      else
        expect(rows[0]?.attributes).toMatchObject({
          completion_tokens: 5,
          total_ms: expect.any(Number) as unknown,
        });
    }
  });

  it.each(['metadata', 'none'] as const)(
    'is no more than the policy at the end, where it was made %s meanwhile',
    async (content) => {
      const open = await openRecorder(`later-${content}`);
      await open.recorder.change('completions', { armed: true, policy: { content: 'full' } }, 'bearer');
      const work = new Tracer([open.recorder.sink]).startSpan('completion', 'c', { ...completionAttributes });
      work.addTranscriptEntry('user', () => 'hush');
      await open.recorder.change('completions', { policy: { content } }, 'bearer');
      work.end({ outcome: 'ok' });
      const rows = await historyOf(open, 'completions');
      expect(rows.map(({ kind }) => kind)).toEqual(['message', 'completion']);
      expect(JSON.stringify(rows)).not.toContain('hush');
      expect(rows[0]?.attributes).toEqual(content === 'metadata' ? { content_bytes: 4 } : null);
    },
  );

  it('are absent, and so is the file, if nothing is armed', async () => {
    const open = await openRecorder('disarmed');
    chat(new Tracer([open.recorder.sink]));
    expect(await historyOf(open, 'completions')).toEqual([]);
  });

  it('store money exactly', async () => {
    const open = await openRecorder('money');
    await open.recorder.change('gateway', { armed: true }, 'bearer');
    const facts = { wire: 'openai-chat', operation: 'chat', stream: false, costNanousd: 2n ** 60n } as const;
    new Tracer([open.recorder.sink]).startSpan('gateway', 'req_1', { ...facts }).end({ outcome: 'ok' });
    const [row] = await historyOf(open, 'gateway');
    expect(row?.attributes).toMatchObject({ cost_nanousd: '1152921504606846976' });
  });
});
