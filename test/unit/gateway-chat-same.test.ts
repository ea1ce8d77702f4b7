import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Model } from '../../src/gateway/catalog/types.ts';
import type { Cap, Effort } from '../../src/wires/core/types.ts';
import { UpstreamFailure } from '../../src/wires/core/upstream-failure.ts';
import { chatWire } from '../../src/wires/chat/client.ts';
import { chatPassthrough } from '../../src/wires/chat/passthrough.ts';
import { openaiChat } from '../../src/wires/chat/upstream.ts';
import { completionsWire } from '../../src/wires/completions/client.ts';
import { completionsPassthrough } from '../../src/wires/completions/passthrough.ts';
import type { ClientRequest } from '../../src/wires/core/wire.ts';
import { aboutOf, clientRequestOn, contentsOf, through } from '../support/gateway/chat.ts';
import { frame, payloadsOf } from '../support/gateway/frames.ts';
import { modelOf } from '../support/gateway/models.ts';

const messages = [{ role: 'user', content: 'hi' }];
const ask = (more: object) => clientRequestOn(chatWire, { model: 'm', messages, ...more });
const efforts: Effort[] = ['low', 'high'];
const sent = (request: ClientRequest, model: Model, maxTokens = request.facts.maxTokens ?? 4096) =>
  chatPassthrough.request(request, { model, stream: request.facts.stream, maxTokens }).text;
const plain = modelOf('openai-chat', { family: 'deepseek' });
const gpt = modelOf('openai-chat', { efforts });
const mistral = modelOf('openai-chat', {
  family: 'mistral',
  provider: { ...plain.provider, baseUrls: ['https://api.mistral.ai/v1'] },
});
const lathe = modelOf('lathe', { family: 'qwen' });

describe('a chat request to a provider of the same wire', () => {
  it('passes byte for byte, except for the model name', () => {
    const space = fc.string({ unit: fc.constantFrom(' ', '\n'), maxLength: 2 });
    const member = fc.tuple(
      fc.stringMatching(/^x_[a-z]{1,5}$/),
      fc.oneof(fc.constantFrom('1.0', '12345678901234567890', '-0', 'null', '"\\u00e9"'), fc.json()),
    );
    fc.assert(
      fc.property(fc.uniqueArray(member, { selector: ([name]) => name }), space, (members, gap) => {
        const body = (model: string) =>
          `{${gap}"model":${gap}"${model}",${gap}"max_tokens":7${gap},"messages":[{"role":"user","content":"hi"}]${members
            .map(([name, value]) => `,${gap}"${name}":${gap}${value}`)
            .join('')}${gap}}`;
        const text = body('m');
        const parsed = JSON.parse(text) as Record<string, unknown>;
        const request = { text, body: parsed, facts: chatWire.facts(parsed, text), header: () => undefined };
        expect(sent(request, plain)).toBe(body('upstream-model'));
      }),
    );
  });

  it.each<[string, object, Model, object]>([
    ['the limit that applies', {}, plain, { max_tokens: 4096 }],
    ['the limit of a reasoning model', {}, gpt, { max_completion_tokens: 4096 }],
    ['a limit by its older name', { max_tokens: 9 }, gpt, { max_completion_tokens: 9 }],
    ['a limit by its newer name', { max_completion_tokens: 9 }, plain, { max_tokens: 9 }],
    ['one limit of two', { max_completion_tokens: 9, max_tokens: 99999 }, plain, { max_tokens: 9 }],
    [
      'a limit as it is where both are known',
      { max_completion_tokens: 9 },
      lathe,
      { max_completion_tokens: 9 },
    ],
    [
      'usage in streams',
      { stream: true, max_tokens: 1 },
      plain,
      { stream: true, max_tokens: 1, stream_options: { include_usage: true } },
    ],
    [
      'usage that is not wanted',
      { stream: true, max_tokens: 1, stream_options: { include_usage: false, x: 1 } },
      plain,
      { stream: true, max_tokens: 1, stream_options: { include_usage: true, x: 1 } },
    ],
    [
      'no such wish to Mistral',
      { stream: true, max_tokens: 1, stream_options: { include_usage: true } },
      mistral,
      { stream: true, max_tokens: 1 },
    ],
    [
      'the nearest effort',
      { max_completion_tokens: 1, reasoning_effort: 'xhigh' },
      gpt,
      { max_completion_tokens: 1, reasoning_effort: 'high' },
    ],
    [
      'a known effort',
      { max_completion_tokens: 1, reasoning_effort: 'low' },
      gpt,
      { max_completion_tokens: 1, reasoning_effort: 'low' },
    ],
    [
      'effort of an object',
      { max_completion_tokens: 1, reasoning: { effort: 'minimal' } },
      gpt,
      { max_completion_tokens: 1, reasoning_effort: 'low' },
    ],
    [
      'a budget',
      { max_completion_tokens: 1000, reasoning: { max_tokens: 900 } },
      gpt,
      { max_completion_tokens: 1000, reasoning_effort: 'high' },
    ],
    [
      'no effort to a model without',
      { max_tokens: 1, reasoning_effort: 'low', reasoning: { effort: 'low' } },
      plain,
      { max_tokens: 1 },
    ],
    [
      'thinking as it is to our host',
      { max_tokens: 1, reasoning: { max_tokens: 5 } },
      lathe,
      { max_tokens: 1, reasoning: { max_tokens: 5 } },
    ],
    ['the usual tier', { max_tokens: 1, service_tier: 'priority' }, plain, { max_tokens: 1 }],
    [
      'what Mistral knows',
      { max_tokens: 1, seed: 5, user: 'u', store: true },
      mistral,
      { max_tokens: 1, random_seed: 5 },
    ],
  ])('says %s', (_, more, model, expected) => {
    expect(JSON.parse(sent(ask(more), model))).toEqual({ model: 'upstream-model', messages, ...expected });
  });

  it('removes reasoning and cache breakpoints for providers that refuse them', () => {
    const history = [
      { role: 'user', content: [{ type: 'text', text: 'x', cache_control: { type: 'ephemeral' } }] },
      { role: 'assistant', content: 'y', reasoning: 'r', reasoning_details: [] },
    ];
    const request = ask({ messages: history, max_completion_tokens: 1 });
    const { messages: translated } = JSON.parse(sent(request, gpt)) as { messages: unknown };
    expect(translated).toEqual([
      { role: 'user', content: [{ type: 'text', text: 'x' }] },
      { role: 'assistant', content: 'y' },
    ]);
    expect(sent(request, plain)).toContain('"reasoning_details":[]');
  });

  it('removes only the reasoning signatures of other providers', () => {
    const own = { type: 'reasoning.text', text: 'mine', signature: 'sig' };
    const others = [
      { type: 'reasoning.text', text: 'hm', signature: 'anthropic:sig' },
      { type: 'reasoning.encrypted', data: 'openai:gAAAA', id: 'rs_1' },
    ];
    const call = { id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } };
    const sealed = { ...call, extra_content: { google: { thought_signature: 'sig' } } };
    const answerMessage = { role: 'assistant', content: 'y', reasoning: 'r' };
    const translated = (message: object, model: Model) => {
      const request = ask({ messages: [{ role: 'user', content: 'x' }, message], max_tokens: 1 });
      return (JSON.parse(sent(request, model)) as { messages: unknown[] }).messages[1];
    };
    const foreign = { ...answerMessage, reasoning_details: [own, ...others], tool_calls: [sealed] };
    expect(translated(foreign, plain)).toEqual({
      ...answerMessage,
      reasoning_details: [own],
      tool_calls: [call],
    });
    expect(translated(foreign, lathe)).toEqual({
      ...answerMessage,
      reasoning_details: [own],
      tool_calls: [call],
    });
    const gemini = { ...plain, family: 'google' };
    expect(translated(foreign, gemini)).toEqual({
      ...answerMessage,
      reasoning_details: [own],
      tool_calls: [sealed],
    });
    // Byte by byte where there is nothing of that kind.
    const mine = ask({ max_tokens: 1 });
    const text = `{"messages":[{"role":"assistant","reasoning_details":[${JSON.stringify(own)}],"n":1.0}]}`;
    expect(sent({ ...mine, text, body: JSON.parse(text) as Record<string, unknown> }, plain)).toContain(
      '1.0',
    );
  });

  it('refuses an unknown effort', () => {
    expect(() => sent(ask({ reasoning_effort: 'huge' }), gpt)).toThrow(/none, minimal/);
  });

  it('sends one limit only', () => {
    const caps = new Set<Cap>(['chat']);
    const model = modelOf('openai-chat', { caps });
    expect(Object.keys(JSON.parse(sent(ask({ max_completion_tokens: 5 }), model)) as object)).toEqual([
      'model',
      'messages',
      'max_completion_tokens',
    ]);
  });
});

const head = { id: 'x', object: 'chat.completion.chunk', created: 1, model: 'p' };
const chunk = (delta: object, more: object = {}) =>
  frame({ ...head, choices: [{ index: 0, delta, finish_reason: null, ...more }] });
const counted = { prompt_tokens: 5, completion_tokens: 2, total_tokens: 7 };
const done = frame('[DONE]');
const run = (frames: ReturnType<typeof frame>[], more: object = {}) =>
  through(chatPassthrough.stream(aboutOf(ask({ stream: true, ...more }))), frames);
const wanted = { stream_options: { include_usage: true } };
type Chunk = {
  choices: { index: number; delta: Record<string, unknown>; finish_reason: string | null }[];
  usage?: unknown;
};

describe('a chat stream of a provider of the same wire', () => {
  const first = chunk({ role: 'assistant', content: 'a' });
  const last = chunk({}, { finish_reason: 'stop' });

  it('passes unchanged', () => {
    const frames = [first, chunk({ content: 'b', unknown: 1.5 }), last, done];
    expect(run(frames).text).toBe(frames.map(({ raw }) => raw).join(''));
    const alone = frame({ ...head, choices: [], usage: counted });
    expect(run([first, last, alone, done]).text).toBe([first, last, done].map(({ raw }) => raw).join(''));
  });

  it('sends usage once, at the end, wherever and however often it arrived', () => {
    const odd = frame({ ...head, choices: [{ index: 0, delta: {}, finish_reason: 'stop' }], usage: counted });
    const early = frame({
      ...head,
      choices: [{ index: 0, delta: { role: 'assistant', content: 'a' }, finish_reason: null }],
      usage: { ...counted, total_tokens: 6 },
    });
    const alone = frame({ ...head, choices: [], usage: counted });
    const inChoice = chunk({}, { finish_reason: 'stop', usage: counted });
    for (const frames of [
      [first, odd, done],
      [early, odd],
      [early, odd, alone, done],
      [alone, first, last, alone, done],
      [first, inChoice, done],
    ]) {
      const chunks = payloadsOf<Chunk>(run(frames, wanted).text);
      expect(chunks.at(-1)).toEqual({ ...head, choices: [], usage: counted });
      for (const each of chunks.slice(0, -1)) expect(each.usage).toBeNull();
      const { text, events } = run(frames);
      expect(text).not.toContain('prompt_tokens');
      expect(events.findLast(({ type }) => type === 'usage')).toEqual({
        type: 'usage',
        usage: { fresh: 5, cacheWrite: 0, cacheWrite1h: 0, cacheRead: 0, output: 2 },
      });
    }
  });

  it('repairs missing members, and only those', () => {
    const { text } = run([
      frame({ choices: [{ delta: { content: 'a', tool_calls: null } }] }),
      frame({ ...head, choices: [{ index: 0, delta: { role: null, content: 'b' }, finish_reason: '' }] }),
      frame({ ...head, choices: [{ index: 0, delta: {}, finish_reason: 'eos' }] }),
      chunk({
        content: [
          { type: 'thinking', thinking: [{ type: 'text', text: 'h' }] },
          { type: 'text', text: 't' },
        ],
      }),
    ]);
    const [one, two, three, four] = payloadsOf<Chunk>(text);
    expect(one).toMatchObject({
      model: 'the-model',
      choices: [{ index: 0, delta: { role: 'assistant', content: 'a' }, finish_reason: null }],
    });
    expect(two).toEqual({ ...head, choices: [{ index: 0, delta: { content: 'b' }, finish_reason: null }] });
    expect(three?.choices[0]?.finish_reason).toBe('stop');
    expect(four?.choices[0]?.delta).toEqual({ content: 't', reasoning: 'h' });
  });

  it('numbers tool calls from 0, however the provider identifies them', () => {
    const call = (name: string, id: string, more: object = {}) => ({
      id,
      type: 'function',
      function: { name, arguments: '{}' },
      ...more,
    });
    for (const pieces of [
      [call('f', 'a'), call('g', 'b')],
      [call('f', 'a', { index: 0 }), call('g', 'b', { index: 0 })],
      [call('f', 'a', { index: 1 }), call('g', 'b', { index: 2 })],
    ]) {
      const { text, events } = run([...pieces.map((each) => chunk({ tool_calls: [each] })), last, done]);
      const indices = payloadsOf<Chunk>(text).flatMap(({ choices }) =>
        ((choices[0]?.delta['tool_calls'] ?? []) as { index: number }[]).map(({ index }) => index),
      );
      expect(indices).toEqual([0, 1]);
      expect(contentsOf(events)).toMatchObject([
        { type: 'tool_call', index: 0, id: 'a', name: 'f' },
        { type: 'tool_arguments', index: 0, text: '{}' },
        { type: 'tool_call', index: 1, id: 'b', name: 'g' },
        { type: 'tool_arguments', index: 1 },
        { type: 'finish' },
      ]);
    }
  });

  it('reads interleaved calls, arguments as an object, late names and reasoning under either name', () => {
    const call = (index: number, called: object, more: object = {}) =>
      chunk({ tool_calls: [{ index, function: called, ...more }] });
    const reader = openaiChat.reader();
    const events = [
      chunk({ reasoning_content: 'h', reasoning: 'h' }),
      chunk({ reasoning: 'm' }),
      chunk({
        content: [
          { type: 'thinking', thinking: [{ type: 'text', text: '!' }] },
          { type: 'text', text: 't' },
        ],
      }),
      call(0, { name: 'f' }, { id: 'a' }),
      call(1, { arguments: '{"x"' }),
      call(0, { arguments: '{' }),
      call(1, { name: 'g' }, { id: 'b' }),
      call(0, { name: '', arguments: '}' }),
      call(1, { arguments: ':1}' }),
      call(2, { name: 'h', arguments: { y: 1 } }),
      chunk({}, { finish_reason: 'stop' }),
    ].flatMap((each) => reader.push(each));
    const texts = (index: number) =>
      events
        .flatMap((event) => (event.type === 'tool_arguments' && event.index === index ? [event.text] : []))
        .join('');
    expect([texts(0), texts(1), texts(2)]).toEqual(['{}', '{"x":1}', '{"y":1}']);
    expect(events.filter(({ type }) => type === 'tool_call')).toMatchObject([
      { index: 0, id: 'a' },
      { index: 1, id: 'b' },
      { index: 2, id: expect.stringMatching(/^call_/) as string },
    ]);
    expect(contentsOf(events).slice(0, 2)).toEqual([
      { type: 'reasoning', text: 'hm!' },
      { type: 'text', text: 't' },
    ]);
    expect(events.at(-1)).toEqual({ type: 'finish', reason: 'tool_calls' });
    expect(reader.end()).toEqual([]);
  });

  it.each([
    ['cut', [first]],
    ['empty', []],
    ['only closed', [done]],
    ['no JSON', [first, frame('{"id":')]],
    ['no object', [first, frame('[1]')]],
    ['an error', [first, frame({ error: { message: 'Overloaded', type: 'overloaded_error' } })]],
    ['an error of another form', [first, frame({ object: 'error', message: 'Bad', code: 500 })]],
    ['given up', [first, chunk({}, { finish_reason: 'insufficient_system_resource' }), done]],
  ])('that is %s is a failure, once', (_, frames) => {
    const { text, events } = run(frames);
    expect(events.filter(({ type }) => type === 'failure')).toMatchObject([
      { isRetryable: true, error: { status: 502 } },
    ]);
    expect(text).not.toContain('[DONE]');
    expect(payloadsOf(text).at(-1)).toHaveProperty('error.type', 'upstream_error');
    const reader = openaiChat.reader();
    const read = [...frames.flatMap((each) => reader.push(each)), ...reader.end()];
    expect(read.filter(({ type }) => type === 'failure').length).toBe(1);
  });

  it('without a last frame is complete when the answer is', () => {
    const { text, events } = run([first, last]);
    expect(events.some(({ type }) => type === 'failure')).toBe(false);
    expect(text.endsWith('data: [DONE]\n\n')).toBe(true);
  });

  it('of several answers is complete when all are', () => {
    const other = (delta: object, reason: string | null) =>
      frame({ ...head, choices: [{ index: 1, delta, finish_reason: reason }] });
    const frames = [first, other({ role: 'assistant', content: 'z' }, null), last];
    expect(run(frames, { n: 2 }).events.at(-1)?.type).toBe('failure');
    const { text, events } = run([...frames, other({}, 'stop')], { n: 2 });
    expect(events.at(-1)?.type).not.toBe('failure');
    expect(payloadsOf(text).length).toBe(4);
  });
});

describe('faults of providers of the chat wire', () => {
  it.each<[string, unknown, number, string | undefined]>([
    [
      'OpenAI',
      {
        error: {
          message: 'maximum context length is 10 tokens',
          code: 'context_length_exceeded',
          param: 'messages',
        },
      },
      422,
      'context_length_exceeded',
    ],
    [
      'vLLM',
      {
        object: 'error',
        message: "This model's maximum context length is 10 tokens.",
        type: 'BadRequestError',
        code: 400,
      },
      422,
      'context_length_exceeded',
    ],
    [
      'llama.cpp',
      {
        error: {
          code: 400,
          message: 'the request exceeds the available context size',
          type: 'exceed_context_size_error',
          n_prompt_tokens: 99,
          n_ctx: 64,
        },
      },
      422,
      'context_length_exceeded',
    ],
    [
      'Azure',
      { error: { message: 'The response was filtered', code: 'content_filter', param: 'prompt' } },
      400,
      'content_filter',
    ],
    [
      'Mistral',
      { object: 'error', message: { detail: [{ loc: ['body', 'top_k'], msg: 'Extra inputs' }] } },
      400,
      undefined,
    ],
    ['FastAPI', { detail: 'Bad thing' }, 400, undefined],
    [
      'Google',
      [{ error: { code: 400, message: 'Bad argument', status: 'INVALID_ARGUMENT' } }],
      400,
      undefined,
    ],
    ['a proxy', '<html>no</html>', 400, undefined],
    ['nobody', '', 400, undefined],
  ])('of %s', (_, body, status, code) => {
    const { error } = openaiChat.failure(400, typeof body === 'string' ? body : JSON.stringify(body), {});
    expect(error.status).toBe(status);
    expect(error.code).toBe(code);
    expect(error.message).not.toContain('<html>');
    if (_ === 'llama.cpp') expect(error.message).toContain('99 tokens');
    if (_ === 'Mistral') expect(error.message).toBe('top_k: Extra inputs');
  });

  it('are reported for a body that is not a completion', () => {
    for (const text of ['', 'x', '[]', '{}', '{"error":{"message":"no"},"choices":[]}'])
      expect(() => openaiChat.answer(text)).toThrow(UpstreamFailure);
  });
});

describe('text completions', () => {
  const completionsRequest = (more: object) => clientRequestOn(completionsWire, { model: 'm', ...more });

  it.each<[object, number, number]>([
    [{ prompt: 'abé' }, 1, 4],
    [{ prompt: ['ab', 'c'], n: 2 }, 4, 3],
    [{ prompt: [1, 2, 3], best_of: 5, n: 2 }, 5, 3],
    [{ prompt: [[1, 2], [3]], suffix: 'x' }, 2, 4],
    [{}, 1, 0],
  ])('%j are %i answers of %i bytes', (more, answers, textBytes) => {
    expect(completionsRequest(more).facts).toMatchObject({ answers, textBytes });
  });

  it.each([
    [{ prompt: [] }],
    [{ prompt: [1, 'a'] }],
    [{ prompt: [1.5] }],
    [{ prompt: {} }],
    [{ best_of: 21 }],
  ])('refuse %j', (more) => {
    expect(() => completionsRequest(more)).toThrow(expect.objectContaining({ status: 400 }) as Error);
  });

  it('are requested with a limit and with usage, which is not sent unless requested', () => {
    const request = completionsRequest({ prompt: 'a', stream: true });
    const { path, text } = completionsPassthrough.request(request, {
      model: plain,
      stream: true,
      maxTokens: 16,
    });
    expect(path).toBe('/completions');
    expect(JSON.parse(text)).toEqual({
      model: 'upstream-model',
      prompt: 'a',
      stream: true,
      max_tokens: 16,
      stream_options: { include_usage: true },
    });
    const piece = { id: 'x', object: 'text_completion', created: 1, model: 'p' };
    const one = frame({
      ...piece,
      choices: [{ text: 'b', index: 0, logprobs: null, finish_reason: 'length' }],
    });
    const usage = frame({ ...piece, choices: [], usage: counted });
    const { text: passed, events } = through(completionsPassthrough.stream(aboutOf(request)), [
      one,
      usage,
      done,
    ]);
    expect(passed).toBe(one.raw + done.raw);
    expect(events.map(({ type }) => type)).toEqual(['start', 'text', 'finish', 'usage']);
    const cut = through(
      completionsPassthrough.stream(aboutOf(completionsRequest({ prompt: ['a', 'b'], stream: true }))),
      [one],
    );
    expect(cut.events.at(-1)?.type).toBe('failure');
  });
});

it('reads chunks correctly, however similar they are', () => {
  const tricky = fc.string({
    unit: fc.constantFrom('a', ' ', '"', '\\', '\n', '\u0000', 'é', '"}', '"content":"', '},"logprobs":null'),
    maxLength: 6,
  });
  const shape = fc.record({
    content: tricky,
    finish: fc.constantFrom(null, null, null, 'stop'),
    more: fc.constantFrom({}, {}, {}, { reasoning_content: 'so' }, { content: 'twice' }),
  });
  fc.assert(
    fc.property(fc.array(shape, { minLength: 1, maxLength: 12 }), (chunks) => {
      const stream = chatPassthrough.stream(aboutOf(ask({ stream: true })));
      const reader = openaiChat.reader();
      const data = chunks.map(({ content, finish, more }) =>
        JSON.stringify({
          id: 'c',
          object: 'chat.completion.chunk',
          created: 1,
          model: 'm',
          choices: [{ index: 0, delta: { content, ...more }, logprobs: null, finish_reason: finish }],
        }),
      );
      for (const text of data) {
        const one = { event: undefined, data: text, raw: `data: ${text}\n\n` };
        expect(stream.push(one).events).toEqual(reader.push(one));
      }
    }),
    { numRuns: 500 },
  );
});
