import { beforeAll, describe, expect, test } from 'vitest';
import { publishedSchemas } from '../support/published-schemas.ts';
import { readEvents, scriptedServers } from '../support/serve.ts';
import { sharedPath } from '../support/shared.ts';

type Json = Record<string, unknown>;
const file = sharedPath('data/openapi/openai.json');
const serve = scriptedServers();

const call = (name: string, city: string) =>
  `<tool_call>\n{"name": "${name}", "arguments": {"city": "${city}"}}\n</tool_call>`;
const tools = ['weather', 'time'].map((name) => ({
  type: 'function',
  function: { name, parameters: { type: 'object', properties: { city: { type: 'string' } } } },
}));
const chat = { messages: [{ role: 'user', content: 'hi' }] };

/** Every kind of answer: the model's output, and the request members. */
const conversations: readonly [name: string, answer: readonly string[], members: object][] = [
  ['a text', ['Hello', ', ', 'world'], {}],
  ['nothing', [], {}],
  ['several answers', ['a', 'b'], { n: 3 }],
  ['a cut answer', ['a', 'b'], { max_tokens: 1 }],
  ['log probabilities', ['a', 'é'], { logprobs: true, top_logprobs: 3 }],
  ['a call', [call('weather', 'Bonn')], { tools }],
  ['two calls after a text', ['Well. ', call('weather', 'Bonn'), '\n', call('time', 'Ulm')], { tools }],
  ['calls with log probabilities', ['So: ', call('time', 'Ulm')], { tools, logprobs: true }],
  ['JSON', ['{"a": ', '1}'], { response_format: { type: 'json_object' } }],
];
const texts: readonly [name: string, members: object][] = [
  ['a text', { prompt: 'a' }],
  ['several prompts and answers', { prompt: ['a', 'b'], n: 2, echo: true }],
  ['token ids', { prompt: [[97], [98]] }],
  ['the best', { prompt: 'a', best_of: 3 }],
  ['log probabilities', { prompt: 'a', logprobs: 3 }],
];

describe.skipIf(file === undefined)("OpenAI's published schemas (skipped where ../shared is absent)", () => {
  let faults: ReturnType<typeof publishedSchemas>;
  beforeAll(() => {
    faults = publishedSchemas(file ?? '');
  });

  test.each(conversations)('accept the answer to a conversation: %s', async (_, answer, members) => {
    const { post } = await serve({ answer: () => answer });
    const response = await post('/v1/chat/completions', { ...chat, ...members });
    expect(response.status).toBe(200);
    expect(faults('CreateChatCompletionResponse', await response.json())).toEqual([]);
  });

  test.each(conversations)('accept every chunk of it: %s', async (_, answer, members) => {
    const { post } = await serve({ answer: () => answer });
    for (const include_usage of [false, true]) {
      const requestBody = { ...chat, ...members, stream: true, stream_options: { include_usage } };
      const frames = await readEvents(await post('/v1/chat/completions', requestBody));
      expect(frames.at(-1)).toBe('[DONE]');
      for (const frame of frames.slice(0, -1))
        expect(faults('CreateChatCompletionStreamResponse', JSON.parse(frame))).toEqual([]);
    }
  });

  test.each(texts)('accept the answer to a text, and every chunk of it: %s', async (_, members) => {
    const { post } = await serve();
    const response = await post('/v1/completions', members);
    expect(response.status).toBe(200);
    expect(faults('CreateCompletionResponse', await response.json())).toEqual([]);
    if ('best_of' in members) return;
    const requestBody = { ...members, stream: true, stream_options: { include_usage: true } };
    for (const frame of (await readEvents(await post('/v1/completions', requestBody))).slice(0, -1)) {
      // The schema is shared with chunks, but does not allow the nulls that chunks have.
      const chunk = JSON.parse(frame) as Json;
      if (chunk['usage'] === null) delete chunk['usage'];
      for (const choice of chunk['choices'] as Json[]) choice['finish_reason'] ??= 'stop';
      expect(faults('CreateCompletionResponse', chunk)).toEqual([]);
    }
  });

  test('accept the log probabilities of a prompt, except for the null of its first token', async () => {
    const { post } = await serve();
    const requestBody = { prompt: 'ab', echo: true, logprobs: 1, max_tokens: 0 };
    const body = (await (await post('/v1/completions', requestBody)).json()) as {
      choices: { logprobs: Json }[];
    };
    const logprobs = body.choices[0]?.logprobs as { token_logprobs: unknown[]; top_logprobs: unknown[] };
    expect([logprobs.token_logprobs.shift(), logprobs.top_logprobs.shift()]).toEqual([null, null]);
    expect(faults('CreateCompletionResponse', body)).toEqual([]);
  });

  test('accept models, embeddings and refusals', async () => {
    const { get, post } = await serve();
    const embeds = await serve({ embeds: 4 });
    for (const [name, response] of [
      ['ListModelsResponse', await get('/v1/models')],
      ['Model', await get('/v1/models/scripted')],
      ['CreateEmbeddingResponse', await embeds.post('/v1/embeddings', { input: ['a', 'b'] })],
      ['ErrorResponse', await embeds.post('/v1/embeddings', { input: [] })],
      ['ErrorResponse', await post('/v1/chat/completions', { messages: [] })],
      ['ErrorResponse', await post('/v1/chat/completions', { ...chat, model: 'x' })],
      ['ErrorResponse', await post('/v1/completions', { prompt: 'a', suffix: 'b' })],
      ['ErrorResponse', await get('/v1/nothing')],
      ['ErrorResponse', await get('/v1/completions')],
    ] as const) {
      expect(faults(name, await response.json())).toEqual([]);
    }
  });

  test('would notice a missing member, and a wrong one', async () => {
    const { post } = await serve();
    const answer = async () =>
      (await (await post('/v1/chat/completions', chat)).json()) as { choices: Json[]; usage: Json };
    const without = await answer();
    delete without.choices[0]?.['logprobs'];
    expect(faults('CreateChatCompletionResponse', without)).not.toEqual([]);
    const wrong = await answer();
    wrong.usage['prompt_tokens'] = 'one';
    expect(faults('CreateChatCompletionResponse', wrong)).not.toEqual([]);
  });
});
