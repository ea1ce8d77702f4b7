import { expect } from 'vitest';
import { z } from 'zod';
import { translateToXGrammar } from '../../../src/grammar/translate.ts';
import { hi, json, other, row, type Row } from './row.ts';

/** OpenAI's chat. */
export const chatRows: readonly Row[] = [
  row('chat_completion', 'both paths; `model` null; parts of a content are one text', async ({ serve }) => {
    const { post, engine } = await serve();
    const content = ['What is', 'the best book'].map((text) => ({ type: 'text', text }));
    for (const path of ['/chat/completions', '/v1/chat/completions']) {
      const response = await post(path, {
        model: null,
        max_tokens: 2,
        messages: [{ role: 'user', content }],
      });
      expect(await response.json()).toMatchObject({
        id: expect.stringMatching(/^chatcmpl/) as string,
        usage: { completion_tokens: 2 },
        choices: [{ message: { role: 'assistant', content: 'Hello, ' }, finish_reason: 'length' }],
      });
    }
    expect(engine.tokenizer.decode(engine.requests[0]?.prompt ?? [])).toContain('What is\nthe best book');
  }),
  row(
    'chat_completion',
    'a stream: the role in the first chunk alone, one id, no content in the last, usage by itself',
    async ({ streamOf }) => {
      const request = { messages: hi, max_tokens: 3, stream_options: { include_usage: true } };
      const events = await streamOf('/chat/completions', request);
      const chunk = z.object({
        id: z.string(),
        choices: z.array(z.object({ delta: json, finish_reason: z.string().nullable() })),
        usage: z.object({ completion_tokens: z.int() }).nullable(),
      });
      const chunks = events.map((event) => chunk.parse(event));
      const deltas = chunks.flatMap(({ choices }) => choices.map(({ delta }) => delta));
      expect(deltas.map((delta) => delta['role'])).toEqual([
        'assistant',
        ...Array(deltas.length - 1).fill(undefined),
      ]);
      expect(new Set(chunks.map(({ id }) => id)).size).toBe(1);
      expect(chunks.at(-2)?.choices).toEqual([{ delta: {}, finish_reason: 'length' }]);
      expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { completion_tokens: 3 } });
    },
  ),
  row('chat_completion', '`/apply-template` renders the conversation', async ({ ask }) => {
    const messages = [{ role: 'system', content: 'You are a test.' }, ...hi];
    expect((await ask('/apply-template', { messages })).body).toEqual({
      prompt:
        '<|im_start|>system\nYou are a test.<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n',
    });
  }),
  row(
    'chat_completion',
    '`response_format`, `json_schema` and `grammar`; what is no schema is refused',
    async ({ serve, isRefused }) => {
      const { post, grammars } = await serve();
      const schema = { const: '42' };
      for (const member of [
        { response_format: { type: 'json_object', schema } },
        { response_format: { type: 'json_schema', json_schema: { schema } } },
        { json_schema: schema },
        { response_format: { type: 'json_object' } },
        { grammar: 'root ::= "a"{5,5}' },
      ])
        expect((await post('/chat/completions', { messages: hi, ...member })).status).toBe(200);
      expect(grammars.compiled.map(({ kind }) => kind)).toEqual([
        ...Array<string>(3).fill('json_schema'),
        'json',
        'ebnf',
      ]);
      for (const response_format of [{ type: 'sound' }, { type: 'json_object', schema: 123 }])
        await isRefused('/chat/completions', { messages: hi, response_format });
      for (const type of [123, 'hiccup'])
        expect(() =>
          translateToXGrammar({ kind: 'json_schema', schema: { type } }, { allowLengthMarks: false }),
        ).toThrow(/type/);
    },
  ),
  row('chat_completion', 'malformed messages are refused', async ({ isRefused }) => {
    const user = { role: 'user', content: 'test' };
    for (const messages of [
      null,
      'string',
      [123],
      [{}],
      [{ role: 123 }],
      [{ ...user, content: 123 }],
      [user, {}],
    ])
      await isRefused('/chat/completions', { messages });
  }),
  row('chat_completion', '`timings_per_token`: rates and counts in the last chunks', async ({ streamOf }) => {
    const request = {
      messages: hi,
      max_tokens: 3,
      timings_per_token: true,
      stream_options: { include_usage: true },
    };
    const last = (await streamOf('/chat/completions', request)).at(-1);
    expect(last).toMatchObject({
      choices: [],
      timings: {
        predicted_n: 3,
        prompt_per_second: expect.any(Number) as number,
        predicted_per_second: 3000,
      },
    });
  }),
  row(
    'chat_completion',
    'log probabilities of the tokens, together the text, also streamed',
    async ({ clientAt }) => {
      const openai = await clientAt({ answer: () => ['b', 'cd'] });
      const messages = [{ role: 'user' as const, content: 'hi' }];
      const request = { model: 'scripted', messages, logprobs: true, top_logprobs: 3 };
      const { choices } = await openai.chat.completions.create(request);
      const written = choices[0]?.logprobs?.content ?? [];
      expect(written.map(({ token }) => token).join('')).toBe('bcd');
      for (const { bytes, top_logprobs } of written)
        expect([bytes?.length, top_logprobs.length]).toEqual([1, 3]);
      const streamed: string[] = [];
      for await (const chunk of await openai.chat.completions.create({ ...request, stream: true }))
        for (const { token } of chunk.choices[0]?.logprobs?.content ?? []) streamed.push(token);
      expect(streamed).toEqual(['b', 'c', 'd']);
    },
  ),
  row(
    'chat_completion',
    '`return_progress`: from the cached tokens to all of the prompt',
    async ({ streamOf }) => {
      const events = await streamOf(
        '/chat/completions',
        { messages: hi, return_progress: true },
        { cached: 5 },
      );
      const progress = events.flatMap(({ prompt_progress }) =>
        prompt_progress ? [json.parse(prompt_progress)] : [],
      );
      const [first, last] = [progress[0], progress.at(-1)];
      expect(first).toMatchObject({ cache: 5, processed: 5 });
      expect(last).toMatchObject({ cache: 5, processed: first?.['total'] });
    },
  ),
  row('chat_completion', '`n` answers', async ({ ask }) => {
    const { body } = await ask('/chat/completions', { messages: hi, n: 2 });
    expect(body).toMatchObject({ choices: [{ index: 0 }, { index: 1 }] });
  }),
  row('chat_completion', 'a conversation that is too long is refused, streamed or not', async ({ ask }) => {
    for (const stream of [false, true]) {
      const messages = [{ role: 'user', content: 'x'.repeat(400) }];
      const { status, body } = await ask('/chat/completions', { messages, stream }, { contextLength: 300 });
      expect([status, body]).toMatchObject([400, { error: { code: 'context_length_exceeded' } }]);
    }
  }),
  other(
    'chat_completion',
    'the type of that error, with `n_prompt_tokens` and `n_ctx`',
    "on llama.cpp's own routes; chat has OpenAI's code",
  ),
  other(
    'chat_completion',
    'a last message of the assistant is continued; two of them are refused',
    'continued with `continue_final_message`',
  ),
  other('chat_completion', '`__verbose`, built-in templates by name', "templates are the model's own"),
];
