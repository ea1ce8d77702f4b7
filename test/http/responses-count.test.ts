import { expect, test } from 'vitest';
import { openaiError } from '../../src/planes/error-schema.ts';
import { ResponseStore } from '../../src/planes/v1/stored/response-store.ts';
import { Store } from '../../src/store/index.ts';
import { responseObject } from '../../src/wires/responses/answer-schema.ts';
import { inputTokenCount } from '../../src/wires/responses/resource-schema.ts';
import { freshSqlite } from '../support/databases.ts';
import { scriptedServers } from '../support/serve.ts';

const serve = scriptedServers();

test('input tokens are those of the same request, which is not answered', async () => {
  const store = await Store.open({ url: freshSqlite(), endpointId: 'e0' });
  try {
    const responses = new ResponseStore({ store, retentionDays: 30 });
    const { post, engine } = await serve({}, 'ready', undefined, [], { responses });
    const tools = [{ type: 'function', name: 'weather', parameters: { type: 'object' } }];
    const first = await (await post('/v1/responses', { input: 'My name is Ana.' })).json();
    const counts: number[] = [];
    for (const request of [
      { input: 'hi' },
      { input: 'hi', instructions: 'Be brief.' },
      { input: [{ role: 'user', content: 'hi' }], tools, tool_choice: 'auto' },
      { input: 'hi', tools, tool_choice: 'none' },
      { input: 'hi', previous_response_id: responseObject.parse(first).id },
    ]) {
      const answered = engine.requests.length;
      const counted = await post('/v1/responses/input_tokens', { model: 'scripted', ...request });
      expect(engine.requests).toHaveLength(answered);
      const count = inputTokenCount.strict().parse(await counted.json());
      const { usage } = responseObject.parse(await (await post('/v1/responses', request)).json());
      expect(count).toEqual({ object: 'response.input_tokens', input_tokens: usage?.input_tokens });
      counts.push(count.input_tokens);
    }
    expect(Math.max(...counts.slice(1))).toBeGreaterThan(counts[0] ?? 0);
    const more = await post('/v1/responses/input_tokens', {
      previous_response_id: responseObject.parse(first).id,
    });
    expect(inputTokenCount.parse(await more.json()).input_tokens).toBeGreaterThan(0);
  } finally {
    await store.close();
  }
});

test('what cannot be counted is refused as the request itself would be', async () => {
  const { post } = await serve({ contextLength: 100 });
  for (const [body, status, error] of [
    [{}, 400, { param: 'input' }],
    [{ input: [] }, 400, { param: 'input' }],
    [{ input: 'hi', previous_response_id: 'resp_1' }, 400, { code: 'unsupported_parameter' }],
    [{ input: 'hi', model: 'other' }, 404, { code: 'model_not_found' }],
    [{ input: 'hi', tools: [{ type: 'web_search' }] }, 400, { param: 'tools.0.type' }],
  ] as const) {
    const response = await post('/v1/responses/input_tokens', body);
    expect([body, response.status]).toEqual([body, status]);
    expect(openaiError.parse(await response.json()).error).toMatchObject(error);
  }
  // A prompt that does not fit is counted, too.
  const long = await post('/v1/responses/input_tokens', { input: 'long '.repeat(100) });
  expect(inputTokenCount.parse(await long.json()).input_tokens).toBeGreaterThan(500);
});
