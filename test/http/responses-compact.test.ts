import { expect, test } from 'vitest';
import { openaiError } from '../../src/planes/error-schema.ts';
import { ResponseStore } from '../../src/planes/v1/stored/response-store.ts';
import { Store } from '../../src/store/index.ts';
import { responseObject } from '../../src/wires/responses/answer-schema.ts';
import { compactedConversation } from '../../src/wires/responses/resource-schema.ts';
import { freshSqlite } from '../support/databases.ts';
import { scriptedServers } from '../support/serve.ts';

const serve = scriptedServers();
const route = '/v1/responses/compact';
const conversation = [
  { role: 'developer', content: 'Be kind.' },
  { role: 'user', content: 'We launch on Tuesday.' },
  { role: 'assistant', content: 'A very long answer, with words.' },
  { type: 'function_call', call_id: 'c', name: 'f', arguments: '{}' },
  { type: 'function_call_output', call_id: 'c', output: 'It is done.' },
];

test('messages of the user stay, the rest becomes a summary that the next request continues from', async () => {
  const answers = ['The launch is on Tuesday; f is done.', 'Tuesday.'];
  const { post, engine } = await serve({ answer: () => [answers.shift() ?? ''] });
  const promptOf = (index: number) => engine.tokenizer.decode(engine.requests[index]?.prompt ?? []);
  const body = { model: 'scripted', input: conversation, instructions: 'Be brief.', prompt_cache_key: 'k' };
  const response = await post(route, body);
  const compacted = compactedConversation.strict().parse(await response.json());
  expect(response.headers.get('x-lathe-seed')).toBe(String(engine.requests[0]?.sampling.seed));
  expect(compacted.output).toEqual([
    {
      id: expect.stringMatching(/^msg_/),
      type: 'message',
      status: 'completed',
      role: 'developer',
      content: [{ type: 'input_text', text: 'Be kind.' }],
    },
    expect.objectContaining({
      role: 'user',
      content: [{ type: 'input_text', text: 'We launch on Tuesday.' }],
    }),
    { id: expect.stringMatching(/^cmp_/), type: 'compaction', encrypted_content: expect.any(String) },
  ]);
  expect(compacted.usage.output_tokens).toBeGreaterThan(0);
  expect(engine.requests[0]?.maxTokens).toBe(Math.floor((engine.model.contextLength ?? 0) / 4));
  for (const text of [
    'Be brief.',
    'A very long answer, with words.',
    'It is done.',
    'Summarize this conversation',
  ])
    expect(promptOf(0)).toContain(text);
  const next = [...compacted.output, { role: 'user', content: 'When?' }];
  expect((await post('/v1/responses', { input: next })).status).toBe(200);
  expect(promptOf(1)).toContain('The launch is on Tuesday; f is done.');
  expect(promptOf(1)).not.toContain('A very long answer, with words.');
  // A second time, the first summary is part of what is summarized.
  const again = await post(route, { model: 'scripted', input: next });
  expect(compactedConversation.parse(await again.json()).output.map(({ type }) => type)).toEqual([
    'message',
    'message',
    'message',
    'compaction',
  ]);
  expect(promptOf(2)).toContain('f is done.');
});

test.each([' ', 'word '.repeat(100)])(
  'where the model says %j, its earlier answers stand for the summary',
  async (text) => {
    const { post, engine } = await serve({ answer: () => [text] });
    const compacted = await post(route, { model: 'scripted', input: conversation });
    const { output } = compactedConversation.parse(await compacted.json());
    await post('/v1/responses', { input: [...output, { role: 'user', content: 'Go on.' }] });
    const prompt = engine.tokenizer.decode(engine.requests[1]?.prompt ?? []);
    expect(prompt).toContain('A very long answer, with words.\nIt is done.');
  },
);

test('a stored conversation is shortened by its last response', async () => {
  const store = await Store.open({ url: freshSqlite(), endpointId: 'e0' });
  try {
    const responses = new ResponseStore({ store, retentionDays: 30 });
    const { post } = await serve({}, 'ready', undefined, [], { responses });
    const { id } = responseObject.parse(await (await post('/v1/responses', { input: 'one' })).json());
    const compacted = await post(route, { model: 'scripted', previous_response_id: id, input: 'two' });
    expect(compactedConversation.parse(await compacted.json()).output).toMatchObject([
      { role: 'user', content: [{ text: 'one' }] },
      { role: 'user', content: [{ text: 'two' }] },
      { type: 'compaction' },
    ]);
    expect(await store.read((db) => db.selectFrom('responses').select('id').execute())).toEqual([{ id }]);
  } finally {
    await store.close();
  }
});

test('what cannot be shortened or read back is refused by name', async () => {
  const { post } = await serve({ contextLength: 200 });
  const forged = { type: 'compaction', encrypted_content: 'lathe:["signature","x"]' };
  for (const [path, body, status, error] of [
    [route, { input: 'hi' }, 400, { param: 'model' }],
    [route, { model: 'scripted' }, 400, { param: 'input' }],
    [route, { model: 'other', input: 'hi' }, 404, { code: 'model_not_found' }],
    [route, { model: 'scripted', input: 'long '.repeat(100) }, 400, { code: 'context_length_exceeded' }],
    [route, { model: 'scripted', previous_response_id: 'resp_1' }, 400, { param: 'previous_response_id' }],
    ['/v1/responses', { input: [forged] }, 400, { param: 'input.0.encrypted_content' }],
  ] as const) {
    const response = await post(path, body);
    expect([body, response.status]).toEqual([body, status]);
    expect(openaiError.parse(await response.json()).error).toMatchObject(error);
  }
});
