import { describe, expect, it } from 'vitest';
import type { ChatModelEvent, ChatModelRequest } from '../../src/agent/chat-model.ts';
import { EngineError } from '../../src/engine/types.ts';
import { GrammarError } from '../../src/grammar/types.ts';
import { HostChatModels } from '../../src/planes/agent/chat-models.ts';
import { Resident } from '../../src/planes/resident.ts';
import { type Script, ScriptedEngine } from '../support/scripted-engine.ts';
import { ScriptedGrammars } from '../support/scripted-grammars.ts';

const request: ChatModelRequest = {
  messages: [{ role: 'user', content: 'Go.' }],
  tools: [],
  sampling: { temperature: 0, seed: 3 },
  maxTokens: 50,
};
const never = new AbortController().signal;

function world(script: Script = {}) {
  const engine = new ScriptedEngine({ answer: () => ['one ', 'two'], ...script });
  const grammars = new ScriptedGrammars();
  const loads: string[] = [];
  const other = new ScriptedEngine({});
  Object.assign(other.model, { id: 'other' });
  const resident = new Resident('loading', {
    find: (name) => Promise.resolve(name === 'other' ? { name, location: '/other' } : undefined),
    isNameOfAnother: () => Promise.resolve(false),
    isSame: (stored, location) => Promise.resolve(stored.location === location),
    inspect: () => Promise.resolve({ problem: undefined, kind: 'generate' }),
    load: (location) => {
      loads.push(location);
      return Promise.resolve({ engine: location === '/scripted' ? engine : other });
    },
  });
  resident.setReady(engine, { grammars, location: '/scripted' });
  const planner = new HostChatModels({ resident, gateway: undefined }).find('resident');
  const answer = async (more: Partial<ChatModelRequest> = {}, signal = never) => {
    const events: ChatModelEvent[] = [];
    for await (const event of planner.streamAnswer({ ...request, ...more }, signal)) events.push(event);
    return events;
  };
  return { engine, grammars, resident, planner, answer, loads };
}

describe('the resident model as a chat model', () => {
  it('answers with the sampling and the token limit of the request', async () => {
    const { answer, engine, planner } = world();
    const events = await answer();
    expect(planner.route).toEqual({ engine: 'resident', model: engine.model.id });
    expect(events.map((event) => (event.type === 'delta' ? event.text : event.type))).toEqual([
      'one ',
      'two',
      'end',
    ]);
    expect(events.at(-1)).toMatchObject({ finish: 'stop', usage: { completionTokens: 2 } });
    expect(engine.requests[0]).toMatchObject({ maxTokens: 50, sampling: { temperature: 0, seed: 3 } });
  });

  it('is told of an image in words', async () => {
    const { answer, engine } = world();
    const image = { path: '/a', mediaType: 'image/png', width: 64, height: 48, sizeBytes: 9 };
    await answer({
      messages: [
        { role: 'user', content: 'Go.' },
        { role: 'assistant', content: '', calls: [{ id: 'a', name: 'fs_read', arguments: '{}' }] },
        {
          role: 'tool',
          callId: 'a',
          name: 'fs_read',
          content: '[a]',
          image: { ...image, digest: '', data: 'QUJD' },
        },
      ],
    });
    const prompt = engine.tokenizer.decode([...(engine.requests[0]?.prompt ?? [])]);
    expect(prompt).toContain('An image of 64 x 48 pixels, 9 bytes; this model takes no images.');
    expect(prompt).not.toContain('QUJD');
  });

  it('limits tokens to the rest of the context, and fails when nothing is left', async () => {
    const { answer, engine } = world({ contextLength: 100 });
    await answer();
    const [received] = engine.requests;
    expect(received?.maxTokens).toBe(Math.min(50, 100 - (received?.prompt.length ?? 0)));
    const long = [{ role: 'user' as const, content: 'x'.repeat(200) }];
    await expect(answer({ messages: long })).rejects.toMatchObject({
      kind: 'invalid',
      code: 'context_length_exceeded',
    });
  });

  it('prevents a model swap during an answer', async () => {
    const { planner, resident, loads, answer } = world({ delayMs: 5 });
    const answering = planner.streamAnswer(request, never)[Symbol.asyncIterator]();
    await answering.next();
    const visit = { signal: never, finished: Promise.resolve() };
    const swapped = resident.acquire('other', visit, 'generate');
    await new Promise((resolve) => setTimeout(resolve, 30));
    expect(loads).toEqual([]);
    let next = await answering.next();
    while (!next.done) next = await answering.next();
    await swapped;
    expect(loads).toEqual(['/other']);
    // The task continues with its original model.
    await answer();
    expect(loads).toEqual(['/other', '/scripted']);
  });

  it('releases its model when the reader stops', async () => {
    const { planner, resident } = world({ delayMs: 5 });
    for await (const event of planner.streamAnswer(request, never)) if (event.type === 'delta') break;
    await resident.acquire('other', { signal: never, finished: Promise.resolve() }, 'generate');
    const hung = world({ hang: true });
    const leaving = new AbortController();
    const answer = hung.answer({}, leaving.signal);
    leaving.abort(new Error('time is up'));
    await expect(answer).rejects.toThrow('time is up');
  });

  it('constrains calls to their schemas, or to any object when a schema is not supported', async () => {
    const { answer, grammars, engine } = world();
    const inputSchema = { type: 'object', properties: { path: { type: 'string' } }, required: ['path'] };
    const tools = [{ name: 'look', description: 'Looks.', inputSchema }];
    await answer({ tools, toolChoice: 'required' });
    expect(JSON.stringify(grammars.compiled[0])).toContain('"path"');
    const compile = grammars.compile.bind(grammars);
    let refused = false;
    grammars.compile = async (source) => {
      if (refused) return await compile(source);
      refused = true;
      throw new GrammarError('grammar_too_complex', 'too much');
    };
    await answer({ tools, toolChoice: 'required' });
    expect(JSON.stringify(grammars.compiled[1])).toContain('"additionalProperties":true');
    expect(JSON.stringify(grammars.compiled[1])).not.toContain('"path"');
    expect(engine.requests).toHaveLength(2);
  });

  it('cuts a schema that would fill the context, and constrains its calls to any object', async () => {
    const { answer, grammars } = world({ contextLength: 4000 });
    const properties = Object.fromEntries(
      Array.from({ length: 1000 }, (_, n) => [`member_${n}`, { type: 'string', description: 'long' }]),
    );
    const huge = { name: 'huge', description: 'H.', inputSchema: { type: 'object', properties } };
    const small = {
      name: 'small',
      description: 'S.',
      inputSchema: { type: 'object', properties: { path: { type: 'string' } }, required: ['path'] },
    };
    // A byte a token here, so that whatever is not cut would not fit.
    expect((await answer({ tools: [huge, small], toolChoice: 'required' })).at(-1)?.type).toBe('end');
    const compiled = JSON.stringify(grammars.compiled[0]);
    expect(compiled).toContain('"path"');
    expect(compiled).not.toContain('member_');
  });

  it.each([
    ['queue_full', 'too_many'],
    ['device_lost', 'unavailable'],
  ] as const)('tells %s as %s', async (code, kind) => {
    const { answer } = world({ fail: { after: 0, error: new EngineError(code, 'no') } });
    await expect(answer()).rejects.toMatchObject({ kind, code });
  });

  it('discloses where prompts go', () => {
    const resident = new Resident('none');
    const alone = new HostChatModels({ resident, gateway: undefined });
    expect(alone.disclosure).toMatchObject({ kind: 'resident', model: null });
    expect(() => alone.find('resident')).toThrow(expect.objectContaining({ code: 'no_resident_model' }));
    const both = new HostChatModels({
      resident,
      gateway: { url: 'https://models.example/v1', key: 'k' },
    });
    expect(both.disclosure.kind).toBe('resident+gateway');
    expect(both.disclosure.disclosure).toContain('models.example');
    expect(both.find('big').route).toEqual({ engine: 'gateway', model: 'big' });
  });
});
