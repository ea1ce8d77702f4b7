import { describe, expect, it } from 'vitest';
import { EngineError } from '../../src/engine/types.ts';
import { residentBackend } from '../../src/planes/backend.ts';
import { collectEvents } from '../../src/wires/core/backend.ts';
import { Resident } from '../../src/planes/resident.ts';
import { type TraceSink, Tracer, type TraceSpan } from '../../src/tracing/index.ts';
import { type Script, ScriptedEngine } from '../support/scripted-engine.ts';
import { ScriptedGrammars } from '../support/scripted-grammars.ts';
import { transcriptLines } from '../support/span-recorder.ts';

const never = new AbortController().signal;
const body = { messages: [{ role: 'user', content: 'Go.' }], max_tokens: 50 };
const request = { body, stream: true, traceparent: undefined };

/** A resident model that may be swapped, called as a function. */
function world(script: Script = {}) {
  const engine = new ScriptedEngine({ answer: () => ['one ', 'two'], ...script });
  const resident = new Resident('loading', {
    find: (name) => Promise.resolve(name === 'other' ? { name, location: '/other' } : undefined),
    isNameOfAnother: () => Promise.resolve(false),
    isSame: (stored, location) => Promise.resolve(stored.location === location),
    inspect: () => Promise.resolve({ problem: undefined, kind: 'generate' }),
    load: () => Promise.resolve({ engine: Object.assign(new ScriptedEngine(), { id: 'other' }) }),
  });
  resident.setReady(engine, { grammars: new ScriptedGrammars(), location: '/scripted' });
  const ended: TraceSpan[] = [];
  const transcripts: (string[] | undefined)[] = [];
  const sink: TraceSink = {
    wantsTranscript: () => true,
    onEnd: (work) => {
      ended.push(work);
      transcripts.push(transcriptLines(work));
    },
  };
  const faults: unknown[] = [];
  const stopping = new AbortController();
  const backend = residentBackend({
    resident,
    stopSignal: stopping.signal,
    onFault: (_, error) => faults.push(error),
    watch: new Tracer([sink]),
  });
  /** Resolves when no lease on the model is held. */
  const swapped = () => resident.acquire('other', { signal: never, finished: Promise.resolve() }, 'generate');
  return { engine, backend, ended, transcripts, faults, stopping, swapped };
}

describe('the resident model as a function', () => {
  it('yields the events of an answer, and is traced like a request of a plane', async () => {
    const { backend, ended, swapped } = world();
    const { events, resident } = await backend.answer('chat', request, never);
    const all = await collectEvents(events);
    expect(all.map((event) => (event.type === 'text' ? event.text : event.type))).toEqual([
      'one ',
      'two',
      'usage',
      'finish',
    ]);
    expect(resident.fingerprint).toMatch(/^fp_\w{10}$/);
    expect(ended).toMatchObject([
      {
        attributes: { wire: 'chat', operation: 'chat', by: 'local', stream: true, completionTokens: 2 },
        result: { outcome: 'ok', status: 200 },
      },
    ]);
    await swapped();
  });

  it('passes the client on to the engine', async () => {
    const { engine, backend } = world();
    for (const client of ['account:1', undefined]) {
      const { events } = await backend.answer('chat', { ...request, client }, never);
      await collectEvents(events);
    }
    expect(engine.requests.map(({ client }) => client)).toEqual(['account:1', 'gateway']);
  });

  it('refuses what the host refuses, with the same message', async () => {
    const { backend, ended } = world();
    const wrong = { ...request, body: { messages: [], temperature: 9 } };
    await expect(backend.answer('chat', wrong, never)).rejects.toMatchObject({
      status: 400,
      violations: [{ path: 'messages' }, { path: 'temperature' }],
    });
    const noPrompt = { ...request, body: { prompt: 5 } };
    await expect(backend.answer('completions', noPrompt, never)).rejects.toMatchObject({ param: 'prompt' });
    await expect(backend.embed({ ...request, body: { input: [] } }, never)).rejects.toMatchObject({
      param: 'input',
    });
    expect(ended.map(({ result }) => result?.outcome)).toEqual(['refused', 'refused', 'refused']);
  });

  it('reports an engine error mid-stream, and an internal error without its message', async () => {
    const lost = world({ fail: { after: 1, error: new EngineError('device_lost', 'The GPU was lost.') } });
    const { events } = await lost.backend.answer('chat', request, never);
    await expect(collectEvents(events)).rejects.toMatchObject({ status: 503, code: 'device_lost' });
    expect(lost.ended).toMatchObject([{ result: { outcome: 'failed', status: 200, code: 'device_lost' } }]);
    const broken = world({ fail: { after: 1, error: new Error('a path') } });
    const answer = await broken.backend.answer('chat', request, never);
    await expect(collectEvents(answer.events)).rejects.toMatchObject({
      status: 500,
      message: expect.not.stringContaining('a path') as string,
    });
    expect(broken.faults).toHaveLength(1);
  });

  it.each(['before its first event', 'between events'])(
    'releases the model where its caller aborts %s',
    async (when) => {
      const { backend, engine, ended, swapped } = world({ answer: () => Array(1000).fill('x') as string[] });
      const leaving = new AbortController();
      const { events } = await backend.answer(
        'chat',
        { ...request, body: { ...body, max_tokens: 900 } },
        leaving.signal,
      );
      if (when === 'between events') await events.next();
      leaving.abort(new Error('gone'));
      await expect.poll(() => ended.map(({ result }) => result)).toMatchObject([{ outcome: 'abandoned' }]);
      // Aborting must not depend on whether events are read.
      await events.return();
      await expect.poll(() => engine.running).toBe(0);
      await swapped();
    },
  );

  it('records the transcript of an aborted answer', async () => {
    const { backend, transcripts } = world({ answer: () => ['one ', 'two ', 'three'] });
    const leaving = new AbortController();
    const { events } = await backend.answer('chat', request, leaving.signal);
    await events.next();
    await events.next();
    leaving.abort(new Error('gone'));
    await expect.poll(() => transcripts).toEqual([['user: Go.', 'assistant: one two ']]);
  });

  it('releases the model where its caller aborts while the answer begins, or never reads it', async () => {
    const { backend, engine, ended, swapped } = world();
    const leaving = new AbortController();
    const answer = backend.answer('chat', request, leaving.signal);
    leaving.abort(new Error('gone'));
    await answer.catch(() => undefined);
    const unread = await backend.answer('chat', request, never);
    await unread.events.return();
    await expect
      .poll(() => ended.map(({ result }) => result))
      .toEqual([1, 2].map(() => ({ outcome: 'abandoned', code: 'client_gone' })));
    expect(engine.requests).toHaveLength(0);
    await swapped();
  });

  it.each([
    { stream: false, after: 0, status: 503 },
    { stream: false, after: 1, status: 503 },
    { stream: true, after: 0, status: 503 },
    // Part of the answer was sent, so its status was sent too.
    { stream: true, after: 1, status: 200 },
  ])('records the status of a failure after $after events; stream: $stream', async (broken) => {
    const { stream, after, status } = broken;
    const error = new EngineError('device_lost', 'The GPU was lost.');
    const { backend, ended } = world({ fail: { after, error } });
    const { events } = await backend.answer('chat', { ...request, stream }, never);
    await expect(collectEvents(events)).rejects.toMatchObject({ code: 'device_lost' });
    expect(ended).toMatchObject([{ result: { outcome: 'failed', status, code: 'device_lost' } }]);
  });

  it('refuses requests when the host stops', async () => {
    const { backend, stopping, ended } = world();
    stopping.abort(new EngineError('shutting_down', 'The host stops.'));
    await expect(backend.answer('chat', request, never)).rejects.toMatchObject({ status: 500 });
    expect(ended).toHaveLength(1);
  });
});
