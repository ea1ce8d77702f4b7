import { describe, expect, test } from 'vitest';
import { EngineError } from '../../src/engine/types.ts';
import { GrammarError } from '../../src/grammar/types.ts';
import { openaiError } from '../../src/planes/error-schema.ts';
import { chatChunk, chatCompletion } from '../../src/wires/chat/answer-schema.ts';
import { readEvents, scriptedServers } from '../support/serve.ts';

const serve = scriptedServers();

const hi = { messages: [{ role: 'user', content: 'hi' }] };
const chat = '/v1/chat/completions';
const parse = (frames: string[]) => frames.slice(0, -1).map((frame) => JSON.parse(frame) as unknown);

describe('chat completions', () => {
  test('buffered: every required member, null ones present', async () => {
    const { post } = await serve();
    const response = await post(chat, { ...hi, model: 'scripted' });
    expect(response.status).toBe(200);
    expect(response.headers.get('x-request-id')).toMatch(/^req_[0-9a-f]{24}$/);
    const body = chatCompletion.parse(await response.json());
    expect(body.id).toMatch(/^chatcmpl-/);
    expect(body.choices).toEqual([
      {
        index: 0,
        message: { role: 'assistant', content: 'Hello, world!', refusal: null },
        logprobs: null,
        finish_reason: 'stop',
      },
    ]);
    expect(body.usage).toMatchObject({ completion_tokens: 4, total_tokens: body.usage.prompt_tokens + 4 });
  });

  test('streamed: role first, finish last, the same text as buffered, then [DONE]', async () => {
    const { post } = await serve({ answer: () => ['a', '', 'ü', ' \n', '"\\', '🦊'] });
    const buffered = chatCompletion.parse(await (await post(chat, hi)).json());
    const response = await post(chat, { ...hi, stream: true });
    expect(response.headers.get('content-type')).toContain('text/event-stream');
    const frames = await readEvents(response);
    expect(frames.at(-1)).toBe('[DONE]');
    const chunks = parse(frames).map((frame) => chatChunk.strict().parse(frame));
    expect(chunks[0]?.choices[0]?.delta.role).toBe('assistant');
    expect(chunks.slice(1).every((chunk) => chunk.choices[0]?.delta.role === undefined)).toBe(true);
    expect(chunks.at(-1)?.choices[0]).toMatchObject({ delta: {}, finish_reason: 'stop' });
    expect(chunks.slice(0, -1).every((chunk) => chunk.choices[0]?.finish_reason === null)).toBe(true);
    expect(chunks.map((chunk) => chunk.choices[0]?.delta.content ?? '').join('')).toBe(
      buffered.choices[0]?.message.content,
    );
    expect(new Set(chunks.map(({ id, created }) => `${id} ${created}`)).size).toBe(1);
    expect(chunks.every((chunk) => !('usage' in chunk))).toBe(true);
  });

  test('include_usage: usage null on every chunk, then one chunk with usage and no choices', async () => {
    const { post } = await serve();
    const frames = await readEvents(
      await post(chat, { ...hi, stream: true, stream_options: { include_usage: true } }),
    );
    const chunks = parse(frames).map((frame) => chatChunk.parse(frame));
    expect(chunks.slice(0, -1).every((chunk) => chunk.usage === null && chunk.choices.length === 1)).toBe(
      true,
    );
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { completion_tokens: 4 } });
  });

  test('sampling members, stop texts and the limit reach the engine', async () => {
    const { post, engine } = await serve({ contextLength: 200 });
    await post(chat, {
      ...hi,
      temperature: 0.5,
      top_p: 0.9,
      top_k: 40,
      min_p: 0.05,
      repeat_penalty: 1.1,
      presence_penalty: -1,
      frequency_penalty: 2,
      logit_bias: { '5': -100 },
      seed: 2 ** 40 + 5,
      stop: ['x', 'y'],
      max_tokens: 3,
      user: 'ignored',
      whatever: { deep: true },
    });
    expect(engine.requests[0]).toMatchObject({
      maxTokens: 3,
      stop: ['x', 'y'],
      sampling: {
        temperature: 0.5,
        topP: 0.9,
        topK: 40,
        minP: 0.05,
        repetitionPenalty: 1.1,
        presencePenalty: -1,
        frequencyPenalty: 2,
        logitBias: new Map([[5, -100]]),
        seed: 5,
      },
    });
    await post(chat, { ...hi, max_tokens: null });
    expect(engine.requests[1]?.maxTokens).toBe(200 - (engine.requests[1]?.prompt.length ?? 0));
    await post(chat, { ...hi, max_tokens: 9, max_completion_tokens: 2 });
    expect(engine.requests[2]?.maxTokens).toBe(2);
    expect(engine.requests[1]?.sampling.seed).not.toBe(engine.requests[2]?.sampling.seed);
  });

  test('a model that is not resident is 404 model_not_found', async () => {
    const { post } = await serve();
    const response = await post(chat, { ...hi, model: 'gpt-9' });
    expect(response.status).toBe(404);
    expect(openaiError.parse(await response.json()).error).toMatchObject({
      code: 'model_not_found',
      param: 'model',
    });
  });
});

describe('several answers', () => {
  test('n choices in order; the prompt is counted once, the answers in total', async () => {
    const { post, engine } = await serve({ cached: 3 });
    const body = chatCompletion.parse(await (await post(chat, { ...hi, n: 3, seed: 7 })).json());
    expect(body.choices.map(({ index, message }) => [index, message.content])).toEqual(
      [0, 1, 2].map((index) => [index, 'Hello, world!']),
    );
    const prompt = engine.requests[0]?.prompt.length ?? 0;
    expect(body.usage).toEqual({
      prompt_tokens: prompt,
      completion_tokens: 12,
      total_tokens: prompt + 12,
      prompt_tokens_details: { cached_tokens: 3, cache_write_tokens: 0 },
      completion_tokens_details: { reasoning_tokens: 0 },
    });
    expect(engine.requests.map(({ sampling }) => sampling.seed)).toEqual([7, 8, 9]);
  });

  test('streamed: each chunk has the index of its choice; each choice begins with its role and ends once', async () => {
    const { post } = await serve({ delayMs: 2 });
    const options = { stream: true, stream_options: { include_usage: true } };
    const frames = await readEvents(await post(chat, { ...hi, n: 3, ...options }));
    const chunks = parse(frames).map((frame) => chatChunk.strict().parse(frame));
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { completion_tokens: 12 } });
    const choices = chunks.slice(0, -1).map((chunk) => {
      expect(chunk.usage).toBe(null);
      expect(chunk.choices.length).toBe(1);
      return chunk.choices[0];
    });
    for (const index of [0, 1, 2]) {
      const own = choices.filter((choice) => choice?.index === index);
      expect(own[0]?.delta.role).toBe('assistant');
      expect(own.map((choice) => choice?.delta.content ?? '').join('')).toBe('Hello, world!');
      expect(own.map((choice) => choice?.finish_reason)).toEqual([...Array(5).fill(null), 'stop']);
    }
    expect(choices.slice(0, 6).map((choice) => choice?.index)).not.toEqual(Array(6).fill(0));
  });

  test('a failure of one choice is reported in the stream, and the others stop', async () => {
    const error = new EngineError('reader_stalled', 'the answer was not read');
    const { post, engine } = await serve({ fail: { after: 3, error } });
    const frames = await readEvents(await post(chat, { ...hi, n: 2, stream: true }));
    expect(frames).not.toContain('[DONE]');
    expect(openaiError.parse(JSON.parse(frames.at(-1) ?? '')).error.code).toBe('reader_stalled');
    expect(engine.running).toBe(0);
  });
});

describe('log probabilities', () => {
  test('of every token of the text, with bytes, and of the most likely ones', async () => {
    const { post, engine } = await serve({ answer: () => ['a', 'é'] });
    const body = chatCompletion.parse(
      await (await post(chat, { ...hi, logprobs: true, top_logprobs: 2 })).json(),
    );
    const top = ['a', 'b'].map((token, rank) => ({
      token,
      logprob: -(97 + rank) / 64,
      bytes: [97 + rank],
    }));
    const entry = (token: string, byte: number) => ({
      token,
      logprob: -byte / 64,
      bytes: [byte],
      top_logprobs: top,
    });
    expect(body.choices[0]?.logprobs).toEqual({
      content: [entry('a', 97), entry('\uFFFD', 0xc3), entry('\uFFFD', 0xa9)],
      refusal: null,
    });
    expect(engine.requests[0]?.logprobs).toBe(2);
  });

  test('streamed: on the chunks of the text, the same as buffered; null elsewhere and by default', async () => {
    const { post } = await serve({ answer: () => ['a', 'bc', '', 'd'] });
    const request = { ...hi, logprobs: true };
    const buffered = chatCompletion.parse(await (await post(chat, request)).json());
    const chunks = parse(await readEvents(await post(chat, { ...request, stream: true }))).map((frame) =>
      chatChunk.parse(frame),
    );
    const choices = chunks.flatMap((chunk) => chunk.choices);
    expect(choices.flatMap(({ logprobs }) => logprobs?.content ?? [])).toEqual(
      buffered.choices[0]?.logprobs?.content,
    );
    expect(choices.map(({ logprobs }) => logprobs?.content.length ?? null)).toEqual([null, 1, 2, 1, null]);
    expect(buffered.choices[0]?.logprobs?.content[0]).toMatchObject({ top_logprobs: [] });
    const plain = chatCompletion.parse(await (await post(chat, hi)).json());
    expect(plain.choices[0]?.logprobs).toBe(null);
  });
});

describe('output constraints', () => {
  const schema = { type: 'object', properties: { a: { type: 'integer' } } };
  const bySchema = { kind: 'json_schema', schema };
  const named = { name: 'my-schema_1', schema, strict: true };
  test.each([
    [{ response_format: { type: 'json_object' } }, { kind: 'json' }],
    [{ response_format: { type: 'json_object', schema } }, bySchema],
    [{ response_format: { type: 'json_schema', json_schema: named } }, bySchema],
    [{ response_format: { type: 'json_schema', json_schema: { name: 'x' } } }, { kind: 'json' }],
    [{ response_format: { type: 'json_schema', schema } }, bySchema],
    [{ json_schema: schema }, bySchema],
    [{ grammar: 'root ::= "a"' }, { kind: 'ebnf', text: 'root ::= "a"' }],
    [{ guided_json: schema }, bySchema],
    [{ guided_json: JSON.stringify(schema) }, bySchema],
    [{ guided_regex: 'a+' }, { kind: 'regex', pattern: 'a+' }],
    [{ guided_choice: ['a', 'b'] }, { kind: 'choice', texts: ['a', 'b'] }],
    [{ guided_grammar: 'root ::= "a"' }, { kind: 'ebnf', text: 'root ::= "a"' }],
    [{ regex: 'a+' }, { kind: 'regex', pattern: 'a+' }],
    [{ ebnf: 'root ::= "a"' }, { kind: 'ebnf', text: 'root ::= "a"' }],
    [{ structured_outputs: { json: schema } }, bySchema],
    [{ structured_outputs: { json_object: true } }, { kind: 'json' }],
    [{ structured_outputs: { regex: 'a+' } }, { kind: 'regex', pattern: 'a+' }],
    [{ structured_outputs: { choice: ['a'] } }, { kind: 'choice', texts: ['a'] }],
    [{ structured_outputs: { grammar: 'root ::= "a"' } }, { kind: 'ebnf', text: 'root ::= "a"' }],
  ])('%j constrains the answer, on both routes', async (members, source) => {
    const { post, grammars } = await serve();
    expect((await post(chat, { ...hi, ...members })).status).toBe(200);
    expect((await post('/v1/completions', { prompt: 'a', ...members })).status).toBe(200);
    expect(grammars.compiled).toEqual([source, source]);
    expect([grammars.started, grammars.closed]).toEqual([2, 2]);
  });

  test.each([
    [
      { response_format: { type: 'json_schema', json_schema: named } },
      'response_format.json_schema.schema/properties/a',
    ],
    [{ guided_json: schema }, 'guided_json/properties/a'],
  ])('a schema that cannot be enforced is a 400 with its path: %j', async (members, param) => {
    const { post, grammars } = await serve();
    grammars.refuse = new GrammarError('unsupported_schema', "'not' cannot be kept", {
      path: '/properties/a',
    });
    for (const [path, body] of [
      [chat, hi],
      ['/v1/completions', { prompt: 'a' }],
    ] as const) {
      for (const stream of [false, true]) {
        const response = await post(path, { ...body, ...members, stream });
        expect(response.status).toBe(400);
        expect(openaiError.parse(await response.json()).error).toEqual({
          message: "'not' cannot be kept",
          type: 'invalid_request_error',
          code: 'unsupported_schema',
          param,
        });
      }
    }
  });
});

test('a strict tool whose schema cannot be enforced is named by its path', async () => {
  const { post, grammars } = await serve();
  grammars.refuse = new GrammarError('unsupported_schema', 'no value matches it', { path: '' });
  const parameters = { type: 'string', enum: [1] };
  const tools = ['a', 'b'].map((name) => ({
    type: 'function',
    function: { name, strict: true, parameters: name === 'a' ? {} : parameters },
  }));
  const response = await post(chat, { ...hi, tools });
  expect(openaiError.parse(await response.json()).error.param).toBe('tools.1.function.parameters');
});

describe('a last message of the assistant', () => {
  const messages = [...hi.messages, { role: 'assistant', content: 'Once upon' }];
  test.each([
    [{}, /Once upon<\|im_end\|>\n<\|im_start\|>assistant\n$/],
    [{ continue_final_message: true }, /<\|im_start\|>assistant\nOnce upon$/],
    [{ add_generation_prompt: false }, /<\|im_start\|>assistant\nOnce upon$/],
  ])('is followed by a new turn, or continued where requested: %j', async (members, ending) => {
    const { post, engine } = await serve();
    expect((await post(chat, { messages, ...members })).status).toBe(200);
    const { tokenizer, requests } = engine;
    expect(tokenizer.decode(requests[0]?.prompt ?? [], { special: true })).toMatch(ending);
  });
});

describe('a reasoning model', () => {
  const template = (prompt: string) => ({ source: '<think> </think>', render: () => prompt });
  const answers = [
    ['begins to', '<|im_start|>assistant\n', ['<think>', '\nh', 'm', 'm\n', '</think>', '\n\n', 'Hi']],
    ['is made to', '<|im_start|>assistant\n<think>\n', ['h', 'm', 'm', '\n</thi', 'nk>\n\n', 'Hi']],
  ] as const;

  test.each(answers)('%s: reasoning is split from the answer and counted', async (_, prompt, pieces) => {
    const { post } = await serve({ chatTemplate: template(prompt), answer: () => pieces });
    const request = { ...hi, logprobs: true };
    const body = chatCompletion.parse(await (await post(chat, request)).json());
    const [choice] = body.choices;
    expect(choice?.message).toMatchObject({ content: 'Hi', reasoning_content: 'hmm', reasoning: 'hmm' });
    expect(choice?.logprobs?.content.map(({ token }) => token)).toEqual(['H', 'i']);
    const counted = body.usage.completion_tokens_details?.reasoning_tokens ?? 0;
    expect([3, 4, 5]).toContain(counted);
    const streamed = { ...request, stream: true, stream_options: { include_usage: true } };
    const chunks = parse(await readEvents(await post(chat, streamed))).map((frame) => chatChunk.parse(frame));
    const deltas = chunks.flatMap((chunk) => chunk.choices.map(({ delta }) => delta));
    expect(deltas.map(({ reasoning_content }) => reasoning_content ?? '').join('')).toBe('hmm');
    expect(deltas.map(({ reasoning }) => reasoning ?? '').join('')).toBe('hmm');
    expect(deltas.map(({ content }) => content ?? '').join('')).toBe('Hi');
    expect(chunks.at(-1)?.usage).toEqual(body.usage);
  });

  test('no reasoning, no member', async () => {
    const { post } = await serve({ chatTemplate: template('<|im_start|>assistant\n'), answer: () => ['Hi'] });
    const body = chatCompletion.parse(await (await post(chat, hi)).json());
    expect(body.choices[0]?.message).toEqual({ role: 'assistant', content: 'Hi', refusal: null });
    expect(body.usage.completion_tokens_details).toEqual({ reasoning_tokens: 0 });
  });
});
