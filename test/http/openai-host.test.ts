import { Ajv } from 'ajv';
import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { buildHost, type HostProcess, startHost } from '../support/host.ts';

// OpenAI's wire over the built host, its embedded model and the machine's adapter: what needs the engine, the grammars
// and the templates together.
let host: HostProcess;
let openai: OpenAI;
let url: string;
beforeAll(async () => {
  buildHost();
  host = startHost(['--gpu', '--port', '0']);
  url = await host.url();
  openai = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 });
});
afterAll(async () => {
  await host.end();
});

const model = 'lathe-tiny';
const ask = (content: string) => ({ model, temperature: 0, messages: [{ role: 'user' as const, content }] });
const post = (path: string, body: unknown) =>
  fetch(url + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
const ajv = new Ajv();
const place = {
  type: 'object',
  properties: { city: { type: 'string', maxLength: 20 } },
  required: ['city'],
  additionalProperties: false,
};
const tools = ['get_weather', 'get_time'].map((name) => ({
  type: 'function' as const,
  function: { name, description: `Get it for a city`, parameters: place },
}));

describe('tools', () => {
  test('a question that needs a tool gets a call, and its result an answer', async () => {
    const question = ask('What is the weather in Rome?');
    const params = { ...question, tools: tools.slice(0, 1) };
    const { choices } = await openai.chat.completions.create(params);
    const [choice] = choices;
    expect(choice?.finish_reason).toBe('tool_calls');
    const [call] = choice?.message.tool_calls ?? [];
    if (call?.type !== 'function' || !choice) throw new Error('no call');
    expect(call.function.name).toBe('get_weather');
    expect(JSON.parse(call.function.arguments)).toEqual({ city: 'Rome' });
    const result = {
      role: 'tool' as const,
      tool_call_id: call.id,
      content: '{"temperature": 21, "sky": "sunny"}',
    };
    const messages = [...question.messages, choice.message, result];
    const answer = await openai.chat.completions.create({ ...params, messages });
    expect(answer.choices[0]).toMatchObject({ finish_reason: 'stop' });
    expect(answer.choices[0]?.message.content).toMatch(/sunny/i);
  });

  test.each(['required' as const, { type: 'function' as const, function: { name: 'get_time' } }])(
    'where one must be called it is, with arguments that fit, whatever is asked: %j',
    async (tool_choice) => {
      for (const seed of [1, 2, 3]) {
        const params = { ...ask('Hello!'), temperature: 1.5, seed, tools, tool_choice, max_tokens: 200 };
        const answer = await openai.chat.completions.create(params);
        const [choice] = answer.choices;
        const calls = choice?.message.tool_calls ?? [];
        if (choice?.finish_reason === 'length') continue;
        expect(choice?.finish_reason).toBe('tool_calls');
        expect(choice?.message.content).toBe(null);
        expect(calls.length).toBeGreaterThan(0);
        for (const call of calls) {
          if (call.type !== 'function') throw new Error('no function');
          if (typeof tool_choice === 'object') expect(call.function.name).toBe('get_time');
          expect(ajv.validate(place, JSON.parse(call.function.arguments))).toBe(true);
        }
        const final = await openai.chat.completions.stream(params).finalChatCompletion();
        const shown = (one = choice?.message) =>
          one?.tool_calls?.map((each) => each.type === 'function' && each.function.arguments);
        expect(shown(final.choices[0]?.message)).toEqual(shown());
      }
    },
  );
});

describe('output constraints', () => {
  const schema = {
    type: 'object',
    properties: {
      name: { type: 'string', maxLength: 12 },
      age: { type: 'integer' },
      likes: { enum: ['tea', 'rain'] },
    },
    required: ['name', 'age', 'likes'],
    additionalProperties: false,
  };

  test('four answers at a high temperature all match the schema', async () => {
    const answer = await openai.chat.completions.create({
      ...ask('Describe a person.'),
      temperature: 1.5,
      seed: 5,
      n: 4,
      max_tokens: 200,
      response_format: { type: 'json_schema', json_schema: { name: 'person', schema, strict: true } },
    });
    expect(answer.choices.length).toBe(4);
    for (const { message, finish_reason } of answer.choices) {
      expect(finish_reason).toBe('stop');
      expect(ajv.validate(schema, JSON.parse(message.content ?? ''))).toBe(true);
    }
    expect(new Set(answer.choices.map(({ message }) => message.content)).size).toBeGreaterThan(1);
  });

  test.each([
    [{ response_format: { type: 'json_object' } }, (text: string) => typeof JSON.parse(text) === 'object'],
    [{ guided_choice: ['yes', 'no'] }, (text: string) => ['yes', 'no'].includes(text)],
    [{ guided_regex: '[0-9]{3}-[a-f]{2}' }, (text: string) => /^[0-9]{3}-[a-f]{2}$/.test(text)],
    [{ grammar: 'root ::= "<" [a-z]+ ">"' }, (text: string) => /^<[a-z]+>?$/.test(text)],
  ])('%j constrains conversations and texts', async (members, fits) => {
    for (const [path, body] of [
      ['/v1/chat/completions', ask('Say something.')],
      ['/v1/completions', { prompt: 'Say', temperature: 1 }],
    ] as const) {
      const response = await post(path, { ...body, ...members, seed: 3, max_tokens: 100 });
      expect(response.status).toBe(200);
      const { choices } = (await response.json()) as {
        choices: { text?: string; message?: { content: string }; finish_reason: string }[];
      };
      const [choice] = choices;
      if (choice?.finish_reason === 'length') continue;
      expect(choice?.message?.content ?? choice?.text).toSatisfy(fits);
    }
  });

  test('a schema that cannot be enforced is refused with its path, including that of a strict tool', async () => {
    const foreign = { type: 'object', properties: { a: { $ref: 'http://elsewhere/schema' } } };
    const strict = { type: 'function', function: { name: 'f', strict: true, parameters: foreign } };
    const format = { type: 'json_schema', json_schema: { name: 'x', schema: foreign } };
    for (const [members, member] of [
      [{ response_format: format }, 'response_format.json_schema.schema'],
      [{ tools: [...tools, strict], tool_choice: 'required' }, 'tools.2.function.parameters'],
    ] as const) {
      const response = await post('/v1/chat/completions', { ...ask('hi'), ...members });
      expect(response.status).toBe(400);
      const { error } = (await response.json()) as { error: unknown };
      expect(error).toMatchObject({ code: 'unsupported_schema', param: `${member}/properties/a` });
    }
  });
});

describe('log probabilities', () => {
  test('belong to the tokens of the text; the first of a greedy answer is the most likely', async () => {
    const { choices } = await openai.chat.completions.create({
      ...ask('Who are you?'),
      logprobs: true,
      top_logprobs: 3,
    });
    const content = choices[0]?.logprobs?.content ?? [];
    const bytes = content.flatMap((entry) => entry.bytes ?? []);
    expect(new TextDecoder().decode(new Uint8Array(bytes))).toBe(choices[0]?.message.content);
    for (const { token, logprob, top_logprobs } of content) {
      expect(logprob).toBeLessThanOrEqual(0);
      expect(top_logprobs.length).toBe(3);
      expect(top_logprobs[0]).toMatchObject({ token, logprob });
      expect(top_logprobs[1]?.logprob).toBeLessThanOrEqual(logprob);
    }
  });

  test('an echoed prompt without an answer is scored like the answer it repeats', async () => {
    const prompt = 'Once upon a time';
    const completion = await openai.completions.create({
      model,
      prompt,
      temperature: 0,
      max_tokens: 8,
      logprobs: 0,
    });
    const text = prompt + (completion.choices[0]?.text ?? '');
    const scored = await openai.completions.create({
      model,
      prompt: text,
      echo: true,
      logprobs: 2,
      max_tokens: 0,
    });
    const [first] = completion.choices;
    const [again] = scored.choices;
    expect(again?.text).toBe(text);
    expect(again?.logprobs?.token_logprobs?.[0]).toBe(null);
    expect(again?.logprobs?.tokens?.length).toBe(scored.usage?.prompt_tokens);
    expect(scored.usage?.completion_tokens).toBe(0);
    const tail = <Value>(values: readonly Value[] | undefined) => values?.slice(-3) ?? [];
    expect(tail(again?.logprobs?.tokens)).toEqual(tail(first?.logprobs?.tokens));
    for (const [index, logprob] of tail(again?.logprobs?.token_logprobs).entries())
      expect(logprob).toBeCloseTo(tail(first?.logprobs?.token_logprobs)[index] ?? 0, 1);
    for (const [index, offset] of (again?.logprobs?.text_offset ?? []).entries()) {
      const token = again?.logprobs?.tokens?.[index] ?? '';
      expect(text.slice(offset, offset + token.length)).toBe(token);
    }
  });

  test('the best of several is at least as likely as the first of them', async () => {
    const params = { model, prompt: 'Once upon', temperature: 1, seed: 11, max_tokens: 12, logprobs: 0 };
    const mean = (values: readonly number[] = []) =>
      values.reduce((sum, value) => sum + value, 0) / values.length;
    const best = await openai.completions.create({ ...params, best_of: 4 });
    const all = await openai.completions.create({ ...params, n: 4 });
    const means = all.choices.map(({ logprobs }) => mean(logprobs?.token_logprobs));
    expect(mean(best.choices[0]?.logprobs?.token_logprobs)).toBeCloseTo(Math.max(...means), 3);
    expect(best.usage?.completion_tokens).toBe(all.usage?.completion_tokens);
  });
});

test('several prompts and answers, streamed and buffered, are the same', async () => {
  const params = {
    model,
    prompt: ['Once upon', 'The little'],
    n: 2,
    seed: 9,
    max_tokens: 10,
    stream_options: { include_usage: true },
  };
  const { stream_options: _, ...plain } = params;
  const buffered = await openai.completions.create(plain);
  const texts = ['', '', '', ''];
  let total = 0;
  for await (const { choices, usage } of await openai.completions.create({ ...params, stream: true })) {
    for (const { index, text } of choices) texts[index] += text;
    total = usage?.total_tokens ?? total;
  }
  expect(texts).toEqual(buffered.choices.map(({ text }) => text));
  expect(total).toBe(buffered.usage?.total_tokens);
});
