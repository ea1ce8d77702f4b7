/** Conversations on `/api/chat` that exceed the context: what is dropped is reported, or refused. */
import { describe, expect, test } from 'vitest';
import { chatLine } from '../../src/wires/ollama/line-schema.ts';
import { startScriptedHost } from '../support/host.ts';
import { scriptedServers } from '../support/serve.ts';

const serve = scriptedServers();
const header = 'x-lathe-dropped-messages';
/** A system message and turns, with a token a byte. */
const turns = (count: number) => [
  { role: 'system', content: 'be brief' },
  ...Array.from({ length: count }, (_, turn) => [
    { role: 'user', content: `question ${turn}.` },
    { role: 'assistant', content: `answer ${turn}.` },
  ]).flat(),
  { role: 'user', content: 'the last question' },
];
const body = (count: number, more: object = {}) => ({
  model: 'scripted',
  messages: turns(count),
  stream: false,
  ...more,
});

describe('a conversation that exceeds the context', () => {
  test('loses its oldest messages, and the answer says how many', async () => {
    const { post, engine } = await serve({ contextLength: 300 });
    const response = await post('/api/chat', body(12));
    const answer = chatLine.parse(await response.json());
    const prompt = engine.tokenizer.decode(engine.requests[0]?.prompt ?? []);
    const kept = turns(12).filter(({ content }) => prompt.includes(content));
    expect(kept.length).toBeGreaterThan(1);
    expect(kept.length).toBeLessThan(turns(12).length);
    expect(kept[0]?.role).toBe('system');
    const dropped = turns(12).length - kept.length;
    expect([response.headers.get(header), answer.dropped_messages]).toEqual([String(dropped), dropped]);
  });

  test('streams: the header comes before the first line, the member in the last one', async () => {
    const release = Promise.withResolvers<void>();
    const { post } = await serve({
      contextLength: 300,
      answer: () => ['a', 'b'],
      hold: (piece) => (piece === 1 ? release.promise : undefined),
    });
    const response = await post('/api/chat', body(12, { stream: true }));
    expect(Number(response.headers.get(header))).toBeGreaterThan(0);
    release.resolve();
    const lines = (await response.text()).trim().split('\n');
    const parsed = lines.map((line) => chatLine.parse(JSON.parse(line)));
    expect(parsed.map(({ dropped_messages: dropped }) => dropped)).toEqual([
      undefined,
      undefined,
      Number(response.headers.get(header)),
    ]);
  });

  test('is refused with both counts where the request or the host says so', async () => {
    const refusal = /300 tokens.*the prompt has \d+/;
    const dropping = await serve({ contextLength: 300 });
    const refusing = await serve({ contextLength: 300 }, 'ready', undefined, [], { truncatesChats: false });
    for (const response of [
      await dropping.post('/api/chat', body(12, { truncate: false })),
      await refusing.post('/api/chat', body(12)),
      await refusing.post('/api/chat', body(12, { stream: true })),
    ]) {
      expect([response.status, response.headers.get(header)]).toEqual([400, null]);
      expect(((await response.json()) as { error: string }).error).toMatch(refusal);
    }
    expect(dropping.engine.requests).toEqual([]);
    const asked = await refusing.post('/api/chat', body(12, { truncate: true }));
    expect([asked.status, Number(asked.headers.get(header)) > 0]).toEqual([200, true]);
  });
});

test('a conversation that fits, and a prompt of /api/generate, lose nothing', async () => {
  const { post } = await serve({ contextLength: 300 });
  const response = await post('/api/chat', body(1));
  expect(response.headers.get(header)).toBeNull();
  expect(await response.json()).not.toHaveProperty('dropped_messages');
  const long = await post('/api/generate', { model: 'scripted', prompt: 'x'.repeat(400), stream: false });
  expect([long.status, await long.text()]).toEqual([
    400,
    expect.stringMatching(/300 tokens.*the prompt has 4\d\d/),
  ]);
});

test('--no-truncate sets the default of the host', async () => {
  const host = startScriptedHost(['--gpu', '--port', '0', '--no-truncate']);
  const messages = Array.from({ length: 9 }, () => ({ role: 'user', content: 'x'.repeat(1000) }));
  const url = `${await host.url()}/api/chat`;
  const send = async (more: object) =>
    (await fetch(url, { method: 'POST', body: JSON.stringify({ model: 'scripted', messages, ...more }) }))
      .status;
  expect([await send({}), await send({ truncate: true })]).toEqual([400, 200]);
  await host.end();
});
