import { existsSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { captureSink } from '../../src/recorder/capture/sink.ts';
import { ControlDatabase } from '../../src/recorder/control/database.ts';
import { Review } from '../../src/recorder/control/review.ts';
import { Redactor } from '../../src/recorder/redaction/redactor.ts';
import type { NewEvent } from '../../src/recorder/types.ts';
import { toContentAttributes } from '../../src/telemetry/content.ts';
import { Tracer } from '../../src/tracing/index.ts';
import { anEvent, armed, eventsOf } from '../support/recorded.ts';
import { recorders } from '../support/recorders.ts';

const open = recorders();

describe('an encoded secret', () => {
  const secret = 'lathe_bearer_IL52-0WaUpe/VcLcFN+enE8n';
  const own = new Redactor([], [secret]);
  const inJson = Array.from(secret, (one) => `\\u00${one.charCodeAt(0).toString(16)}`).join('');
  const inUrl = Array.from(secret, (one) => `%${one.charCodeAt(0).toString(16)}`).join('');

  it.each([
    ['in the escapes of JSON', inJson],
    ['in those of JSON in JSON', JSON.stringify(inJson).slice(1, -1)],
    ['in the escapes of a URL', inUrl],
    ['in part', `${secret.slice(0, 9)}${inJson.slice(9 * 6)}`],
  ])('%s', (_, written) => {
    expect(own.redact(`é<${written}>ü`)).toEqual({ text: 'é<[redacted]>ü', count: 1 });
  });

  it('in base64, at any offset', () => {
    for (const before of ['', 'u', 'u:', 'us:', 'user'])
      for (const encoding of ['base64', 'base64url'] as const) {
        const { text, count } = own.redact(Buffer.from(`${before}${secret}z`).toString(encoding));
        expect(count).toBe(1);
        expect(Buffer.from(text.replace('[redacted]', ''), 'base64').toString()).not.toContain(
          secret.slice(2, -2),
        );
      }
  });

  it('is found by patterns, and nothing else is changed', () => {
    const credentials = new Redactor(['@credentials'], []);
    expect(credentials.redact('{"url":"postgres%3A%2F%2Fme%3Ahunter2%40h"}').text).toBe(
      '{"url":"[redacted]h"}',
    );
    for (const text of ['100%20 and \\u0041b', '%', '\\u00', '\\'.repeat(1000), '%41%zz'])
      expect(credentials.redact(text)).toEqual({ text, count: 0 });
  });

  it('endless escapes take no more time than other texts', () => {
    for (const text of ['\\'.repeat(200_000), `${'\\'.repeat(200_000)}\\u0041`, '%41'.repeat(80_000)])
      expect(own.redact(text).count).toBe(0);
  });
});

describe('slow patterns', () => {
  /** Each match of one is looked for up to the end of the text. */
  const redact = Array.from({ length: 32 }, (_, n) => `(?:a[ab]*c|b)d{0,${n + 1}}`);
  const endless = Array.from({ length: 40_000 }, (_, n) => (n % 3 === 0 ? 'a' : 'b')).join('');

  it('do not block the rack: events that take too long are refused and never stored unredacted', async () => {
    const { recorder, faults } = await open('slow');
    const token = await armed(recorder, 'external', { content: 'full', redact });
    const slow = recorder.ingest(token, [anEvent('slow', { content: endless })], 'bearer');
    await expect(slow).rejects.toEqual(
      expect.objectContaining({ name: 'RecorderError', kind: 'conflict', code: 'redaction_too_slow' }),
    );
    recorder.record('external', [anEvent('captured', { content: endless })]);
    await recorder.ingest(token, [anEvent('quick', { content: 'xbx' })], 'bearer');
    const kept = await eventsOf(recorder, 'external');
    expect(kept.map(({ event_id, content }) => [event_id, content])).toEqual([['quick', 'x[redacted]x']]);
    await recorder.close();
    expect(faults).toEqual([expect.stringContaining('1 event of the rack')]);
  });

  it('time out for texts that leave the host by another way', async () => {
    const { recorder } = await open('slow-elsewhere');
    await armed(recorder, 'external', { content: 'full', redact });
    expect(() => recorder.redact(endless, 'external')).toThrow(
      expect.objectContaining({ name: 'RedactionTimeoutError' }),
    );
    expect(recorder.redact('xbx', 'external')).toBe('x[redacted]x');
  });

  it('are not run on the beginning of a conversation that does not fit a span', () => {
    const watch = new Tracer([{ wantsTranscript: () => true }]);
    const work = watch.startSpan('completion', '1', {
      wire: 'chat',
      operation: 'chat',
      by: 'x',
      stream: false,
    });
    for (let n = 0; n < 500; n++) work.addTranscriptEntry('user', () => `${n}:${'x'.repeat(10_000)}`);
    let asked = 0;
    toContentAttributes(work, (text) => {
      asked += text.length;
      return text;
    });
    expect(asked).toBeLessThan(100_000);
  });
});

describe('names chosen by models and callers', () => {
  it('is recorded only if it looks like a name, because it may be conversation content otherwise', () => {
    const kept: NewEvent[] = [];
    const sink = captureSink({
      contentOf: () => 'metadata',
      record: (_, events) => kept.push(...events),
    });
    const watch = new Tracer([sink]);
    const tool = { agent: 'a', toolKind: 'unknown' } as const;
    watch
      .startSpan('tool', '1', { ...tool, tool: 'the pass phrase is swordfish', callId: 'and more\n' })
      .end({ outcome: 'failed', code: 'unknown_tool' });
    watch.startSpan('tool', '2', { ...tool, tool: 'fs_raed', callId: 'call_1' }).end({ outcome: 'failed' });
    const asked = { wire: 'chat', operation: 'chat', by: 'local', stream: false } as const;
    watch
      .startSpan('completion', '3', { ...asked, requestedModel: 'what is the pass phrase?' })
      .end({ outcome: 'refused', status: 404 });
    expect(JSON.stringify(kept.map(({ attributes }) => attributes))).not.toMatch(/pass phrase|and more/);
    expect(kept[1]?.attributes).toMatchObject({ tool: 'fs_raed', call_id: 'call_1' });
  });
});

describe('the review', () => {
  it('keeps entries about rule changes, however many accesses follow', async () => {
    const { recorder, folder } = await open('flooded');
    await recorder.change('agent', { armed: true }, 'somebody');
    await recorder.close();
    const control = await ControlDatabase.open(join(folder, 'recorder.db'), () => new Date());
    const review = new Review(control, () => undefined);
    const access = { by: 'bearer', act: 'ingest', rack: 'agent', details: {} } as const;
    await review.write(access);
    // As if so many had been written meanwhile.
    await control.transaction((tx) =>
      tx
        .insertInto('review')
        .values({ seq: 200_000, at: control.time(), ...access, details: '{}' } as never)
        .execute(),
    );
    await review.write(access);
    const { entries } = await review.list({ limit: 100 });
    expect(entries.map(({ act, by }) => [act, by])).toEqual([
      ['arm', 'somebody'],
      ['ingest', 'bearer'],
      ['ingest', 'bearer'],
    ]);
    await control.close();
  });
});

describe('files that are deleted while a host uses them', () => {
  it('control database: grants that could not be revoked later are refused', async () => {
    const { recorder, folder } = await open('without-rules');
    const token = await armed(recorder, 'agent');
    const path = join(folder, 'recorder.db');
    renameSync(path, `${path}.away`);
    const refused = expect.objectContaining({ name: 'RecorderError', code: 'storage_failed' });
    await expect(recorder.ingest(token, [anEvent('a')], 'bearer')).rejects.toEqual(refused);
    await expect(recorder.transcripts.readable('bearer')).rejects.toEqual(refused);
    await expect(recorder.change('agent', { armed: false }, 'bearer')).rejects.toEqual(refused);
    renameSync(`${path}.away`, path);
    await recorder.ingest(token, [anEvent('a')], 'bearer');
  });

  it('history: events acknowledged afterwards are in a new file', async () => {
    const { recorder, folder } = await open('without-history');
    const token = await armed(recorder, 'agent');
    await recorder.ingest(token, [anEvent('before')], 'bearer');
    rmSync(join(folder, 'agent.db'));
    await recorder.ingest(token, [anEvent('after')], 'bearer');
    expect(existsSync(join(folder, 'agent.db'))).toBe(true);
    expect((await eventsOf(recorder, 'agent')).map(({ event_id }) => event_id)).toEqual(['after']);
  });
});
