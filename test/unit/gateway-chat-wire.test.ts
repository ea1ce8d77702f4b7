import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { WireError } from '../../src/wires/core/error.ts';
import type { AnswerEvent } from '../../src/wires/core/answer.ts';
import { chatWire } from '../../src/wires/chat/client.ts';
import { openaiChat } from '../../src/wires/chat/upstream.ts';
import type { Conversation, Message, Part } from '../../src/wires/core/conversation.ts';
import { aboutOf, clientRequestOn, contentsOf } from '../support/gateway/chat.ts';
import { framesOf, payloadsOf } from '../support/gateway/frames.ts';
import { modelOf } from '../support/gateway/models.ts';
import { openApiDocument, schemaFaults } from '../support/gateway/schemas.ts';
import { describeShared } from '../support/shared.ts';

const hello = { model: 'm', messages: [{ role: 'user', content: 'hi' }] };
const ask = (more: object) => clientRequestOn(chatWire, { ...hello, ...more });

const text = fc.string({ minLength: 1, maxLength: 12 });
const word = fc.stringMatching(/^[a-z]{3,8}$/);
const content: fc.Arbitrary<AnswerEvent[]> = fc.oneof(
  text.map((each): AnswerEvent[] => [{ type: 'text', text: each }]),
  text.map((each): AnswerEvent[] => [
    { type: 'text', text: each, logprobs: [{ token: each, logprob: -0.5, bytes: null, top_logprobs: [] }] },
  ]),
  text.map((each): AnswerEvent[] => [{ type: 'refusal', text: each }]),
  text.map((each): AnswerEvent[] => [{ type: 'reasoning', text: each }]),
  fc.tuple(text, text).map(([each, signature]): AnswerEvent[] => [
    { type: 'reasoning', text: each },
    { type: 'reasoning_signature', signature },
  ]),
  fc
    .tuple(text, fc.option(word, { nil: undefined }))
    .map(([data, id]): AnswerEvent[] => [
      { type: 'encrypted_reasoning', data, ...(id === undefined ? {} : { id }) },
    ]),
);
/** Parallel calls with interleaved arguments. */
const calls = fc
  .array(
    fc.record({
      name: word,
      seal: fc.option(word, { nil: undefined }),
      pieces: fc.array(text, { maxLength: 3 }),
    }),
    {
      maxLength: 4,
    },
  )
  .map((all) => {
    const events: AnswerEvent[] = all.map(({ name, seal }, index) => ({
      type: 'tool_call',
      index,
      id: `call_${index}`,
      name,
      ...(seal === undefined ? {} : { signature: seal }),
    }));
    for (let n = 0; n < 3; n++)
      all.forEach(({ pieces }, index) => {
        const piece = pieces[n];
        if (piece !== undefined) events.push({ type: 'tool_arguments', index, text: piece });
      });
    return events;
  });
const count = fc.nat(1000);
const answer = fc
  .record({
    contents: fc.array(content, { maxLength: 8 }),
    calls,
    reason: fc.constantFrom('length' as const, 'tool_calls' as const, 'content_filter' as const),
    usage: fc.record({ fresh: count, cacheWrite: count, cacheRead: count, output: count, reasoning: count }),
    usageAt: fc.nat(20),
    includeUsage: fc.boolean(),
  })
  .map(({ contents, calls: called, reason, usage, usageAt, includeUsage }) => {
    const events: AnswerEvent[] = [
      { type: 'start' },
      ...contents.flat(),
      ...called,
      { type: 'finish', reason },
    ];
    const counted: AnswerEvent = { type: 'usage', usage: { ...usage, cacheWrite1h: 0 } };
    events.splice(1 + (usageAt % events.length), 0, counted);
    return { events, includeUsage, usage: counted };
  });
const receipt = {
  cost: { total: 0n, components: { fresh: 0n, cache_write: 0n, cache_read: 0n, output: 0n } },
  requestId: 'req_0',
  effectiveModel: 'm',
  reason: 'as_requested',
} as const;

describeShared('answers on the chat wire', [openApiDocument], () => {
  it('streams any answer in the published schema, and reads it back as the same answer', () => {
    fc.assert(
      fc.property(answer, ({ events, includeUsage, usage }) => {
        const request = ask({ stream: true, stream_options: { include_usage: includeUsage } });
        const writer = chatWire.writer(aboutOf(request));
        const stream = events.map((event) => writer.write(event)).join('') + writer.end(receipt);
        const chunks = payloadsOf<{
          id: string;
          choices: { delta: object; finish_reason: unknown }[];
          usage?: unknown;
        }>(stream);
        for (const chunk of chunks) {
          expect(schemaFaults('chat', 'chunk', chunk)).toEqual([]);
          expect(chunk.id).toBe(chunks[0]?.id);
          expect('usage' in chunk).toBe(includeUsage);
        }
        expect(chunks[0]?.choices[0]?.delta).toHaveProperty('role', 'assistant');
        expect(chunks.filter((chunk) => 'role' in (chunk.choices[0]?.delta ?? {})).length).toBe(1);
        expect(stream.endsWith('data: [DONE]\n\n')).toBe(true);
        const reader = openaiChat.reader();
        const read = [...framesOf(stream).flatMap((frame) => reader.push(frame)), ...reader.end()];
        expect(contentsOf(read)).toEqual(contentsOf(events));
        expect(read.filter(({ type }) => type === 'usage')).toEqual(includeUsage ? [usage] : []);
      }),
      { numRuns: 300 },
    );
  });

  it('writes any buffered answer in the published schema, and reads it back as the same answer', () => {
    // Whole, all of a kind stands together.
    const kinds = ['reasoning', 'text', 'refusal', 'tool_call', 'finish'];
    const pieces = (events: readonly AnswerEvent[], kind: string) =>
      events.flatMap((event) => (event.type === kind && 'text' in event ? [event.text] : [])).join('');
    fc.assert(
      fc.property(answer, ({ events, usage }) => {
        const body = chatWire.body(events, aboutOf(ask({})));
        expect(schemaFaults('chat', 'body', body)).toEqual([]);
        const read = openaiChat.answer(JSON.stringify(body));
        for (const kind of kinds) expect(pieces(read, kind)).toBe(pieces(events, kind));
        for (const kind of ['tool_call', 'finish', 'encrypted_reasoning'])
          expect(read.filter(({ type }) => type === kind)).toEqual(
            events.filter(({ type }) => type === kind),
          );
        expect(read).toContainEqual(usage);
      }),
      { numRuns: 300 },
    );
  });

  it('writes errors in-band and as bodies', () => {
    const error = new WireError(502, 'upstream_error', 'It failed.', { code: 'upstream_failed' });
    const [chunk] = payloadsOf(chatWire.writer(aboutOf(ask({}))).fail(error));
    expect(schemaFaults('chat', 'chunk', chunk)).toEqual([]);
    expect(chatWire.errorBody(error, 'req_0')).toEqual(chunk);
  });
});

const cache = fc.constantFrom({}, { cache: {} }, { cache: { ttl: '1h' as const } });
const image = fc
  .tuple(
    fc.constantFrom({ url: 'https://a/b.png' }, { mediaType: 'image/png', data: 'aGk=' }),
    fc.constantFrom({}, { detail: 'low' as const }),
    cache,
  )
  .map(([source, detail, mark]): Part => ({ type: 'image', source, ...detail, ...mark }));
const textPart = fc.tuple(text, cache).map(([each, mark]): Part => ({ type: 'text', text: each, ...mark }));
const file = fc.constant<Part>({ type: 'file', mediaType: 'application/pdf', data: 'aGk=', name: 'a.pdf' });

const conversation = fc
  .record({
    system: fc.array(textPart, { minLength: 1, maxLength: 2 }),
    turns: fc.array(
      fc.record({
        user: fc.array(fc.oneof(textPart, image, file), { minLength: 1, maxLength: 3 }),
        thoughts: fc.option(text, { nil: undefined }),
        answer: fc.option(textPart, { nil: undefined }),
        refusal: fc.option(text, { nil: undefined }),
        calls: fc.array(fc.record({ name: word, result: fc.array(textPart, { maxLength: 2 }) }), {
          maxLength: 3,
        }),
      }),
      { minLength: 1, maxLength: 3 },
    ),
    settings: fc.record(
      {
        maxTokens: fc.integer({ min: 1, max: 8000 }),
        temperature: fc.constantFrom(0, 0.7, 2),
        topP: fc.constantFrom(0.1, 1),
        seed: fc.integer(),
        presencePenalty: fc.constantFrom(-2, 0.5),
        frequencyPenalty: fc.constantFrom(0, 1),
        topLogprobs: fc.nat(20),
        user: word,
      },
      { requiredKeys: ['maxTokens'] },
    ),
    stop: fc.array(text, { maxLength: 4 }),
    format: fc.constantFrom<Conversation['format']>(
      { type: 'text' },
      { type: 'json' },
      { type: 'schema', name: 'a', schema: { type: 'object' }, strict: true },
    ),
    tool: fc.tuple(word, cache).map(([name, mark]) => ({
      name,
      description: 'd',
      parameters: { type: 'object' },
      strict: false,
      ...mark,
    })),
    choice: fc.constantFrom<NonNullable<Conversation['toolChoice']>>('auto', 'none', 'required'),
    parallelToolCalls: fc.boolean(),
  })
  .map(({ system, turns, settings, stop, format, tool, choice, parallelToolCalls }): Conversation => {
    let n = 0;
    const messages: Message[] = [{ role: 'system', parts: system }];
    for (const { user, thoughts, answer: answerText, refusal, calls: called } of turns) {
      messages.push({ role: 'user', parts: user });
      const made = called.map(({ name, result }) => ({ id: `call_${n++}`, name, result }));
      messages.push({
        role: 'assistant',
        parts: [
          ...(thoughts === undefined ? [] : [{ type: 'reasoning' as const, text: thoughts }]),
          ...(answerText ? [answerText] : []),
          ...(refusal === undefined ? [] : [{ type: 'refusal' as const, text: refusal }]),
          ...made.map(({ id, name }) => ({ type: 'tool_call' as const, id, name, arguments: '{}' })),
        ],
      });
      if (made.length > 0)
        messages.push({
          role: 'tool',
          parts: made.map(({ id, name, result }) => ({
            type: 'tool_result' as const,
            id,
            name,
            parts: (result.length > 0 ? result : [{ type: 'text' as const, text: 'r' }]).map((part) =>
              part.type === 'text'
                ? { type: 'text' as const, text: part.text }
                : { type: 'text' as const, text: '' },
            ),
            failed: false,
          })),
        });
    }
    return { messages, tools: [tool], toolChoice: choice, parallelToolCalls, ...settings, stop, format };
  });

describe('conversations on the chat wire', () => {
  it('are read as they were written', () => {
    // With a model that accepts reasoning and cache breakpoints.
    const model = modelOf('openai-chat', { family: 'anthropic' });
    fc.assert(
      fc.property(conversation, fc.boolean(), (conversationMessages, stream) => {
        const { text: written } = openaiChat.request(conversationMessages, {
          model,
          stream,
          maxTokens: conversationMessages.maxTokens ?? 1,
        });
        const body = JSON.parse(written) as Record<string, unknown>;
        expect(body).toMatchObject({ model: 'upstream-model', max_tokens: conversationMessages.maxTokens });
        expect(body['stream_options']).toEqual(stream ? { include_usage: true } : undefined);
        expect(chatWire.conversation(clientRequestOn(chatWire, body))).toEqual(conversationMessages);
      }),
      { numRuns: 300 },
    );
  });

  it('accept the reasoning of an answer with its signatures', () => {
    const events: AnswerEvent[] = [
      { type: 'reasoning', text: 'Hm, ' },
      { type: 'reasoning', text: 'yes' },
      { type: 'reasoning_signature', signature: 's1' },
      { type: 'encrypted_reasoning', data: 'd', id: 'r1' },
      { type: 'tool_call', index: 0, id: 'c', name: 'f', signature: 'g' },
      { type: 'tool_arguments', index: 0, text: '{}' },
      { type: 'finish', reason: 'tool_calls' },
    ];
    const body = chatWire.body(events, aboutOf(ask({}))) as { choices: { message: object }[] };
    const message = body.choices[0]?.message;
    expect(message).toMatchObject({ reasoning: 'Hm, yes', content: null });
    expect(message).not.toHaveProperty('reasoning_content');
    const { messages } = chatWire.conversation(
      ask({ messages: [...hello.messages, message, { role: 'tool', tool_call_id: 'c', content: 'r' }] }),
    );
    expect(messages.slice(1)).toEqual([
      {
        role: 'assistant',
        parts: [
          { type: 'reasoning', text: 'Hm, yes', signature: 's1' },
          { type: 'encrypted_reasoning', data: 'd', id: 'r1' },
          { type: 'tool_call', id: 'c', name: 'f', arguments: '{}', signature: 'g' },
        ],
      },
      {
        role: 'tool',
        parts: [
          { type: 'tool_result', id: 'c', name: 'f', parts: [{ type: 'text', text: 'r' }], failed: false },
        ],
      },
    ]);
  });

  it('reports all violations at once', () => {
    const wrong = () =>
      chatWire.conversation(
        ask({
          messages: [
            {
              role: 'user',
              content: [
                { type: 'text', text: 1 },
                { type: 'image_url', image_url: { url: 'ftp://x' } },
              ],
            },
            { role: 'king', content: '' },
          ],
          temperature: 3,
          tools: [{ type: 'function', function: { name: '' } }],
          stop: 5,
        }),
      );
    expect(wrong).toThrow(WireError);
    try {
      wrong();
    } catch (error) {
      const paths = (error as WireError).violations?.map(({ path }) => path);
      expect(paths).toEqual([
        'messages.0.content.0.text',
        'messages.1.role',
        'tools.0.function.name',
        'temperature',
        'stop',
      ]);
      expect(error).toMatchObject({ status: 400, type: 'invalid_request_error' });
    }
  });

  it.each([
    ['n', { n: 2 }],
    ['functions', { functions: [{ name: 'f' }] }],
    ['function_call', { function_call: { name: 'f' } }],
    ['logit_bias', { logit_bias: { 1: 5 } }],
    ['modalities', { modalities: ['text', 'audio'] }],
    ['audio', { audio: { voice: 'x' } }],
    [
      'messages.0.content.0.file.file_id',
      { messages: [{ role: 'user', content: [{ type: 'file', file: { file_id: 'x' } }] }] },
    ],
  ])('refuses %s, which other wires cannot express', (param, more) => {
    try {
      chatWire.conversation(ask(more));
      expect.unreachable();
    } catch (error) {
      expect(error).toMatchObject({ status: 400, code: 'unsupported_parameter', param });
    }
  });

  it('drops hints', () => {
    const plain = chatWire.conversation(ask({}));
    const hints = {
      metadata: { a: 'b' },
      store: true,
      service_tier: 'flex',
      prompt_cache_key: 'k',
      n: 1,
      functions: [],
      verbosity: 'low',
    };
    expect(chatWire.conversation(ask(hints))).toEqual(plain);
  });
});

describe('facts of a chat request', () => {
  const facts = (more: object) => ask(more).facts;

  it('contain what the gateway needs', () => {
    const data = 'A'.repeat(4000);
    const found = facts({
      messages: [
        { role: 'system', content: 'é' },
        {
          role: 'user',
          content: [
            { type: 'text', text: 'hi' },
            { type: 'image_url', image_url: { url: `data:image/png;base64,${data}` } },
            { type: 'file', file: { file_data: data } },
          ],
        },
      ],
      max_tokens: 5,
      max_completion_tokens: 7,
      n: 3,
      stream: true,
      stream_options: { include_usage: true },
      response_format: { type: 'json_object' },
    });
    expect(found).toMatchObject({
      model: 'm',
      stream: true,
      includeUsage: true,
      maxTokens: 7,
      answers: 3,
      images: 1,
      prefix: 'éhi',
    });
    expect(found.textBytes).toBeLessThan(100);
    expect(found.fileBytes).toBeGreaterThanOrEqual(3000);
    expect(found.needs).toEqual([
      { cap: 'images', param: 'messages' },
      { cap: 'structured_output', param: 'response_format' },
    ]);
    expect(facts({ functions: [{ name: 'f' }] }).needs).toEqual([{ cap: 'tools', param: 'functions' }]);
    expect(facts({ tools: [{ type: 'function', function: { name: 'f' } }] }).needs).toEqual([
      { cap: 'tools', param: 'tools' },
    ]);
  });

  it.each([
    [{ model: undefined }, 'model: expected a text, got nothing.'],
    [{ model: 5 }, 'model: expected a text, got 5.'],
    [{ max_tokens: 'ten' }, 'max_tokens: expected a whole number, at least 1, got a string.'],
    [{ stream_options: [] }, 'stream_options: expected an object, got an array.'],
  ])('a refusal of %j states what was expected and received', (more, message) => {
    expect(() => facts(more)).toThrow(expect.objectContaining({ message }) as Error);
  });

  it('count no fewer bytes than the model reads', () => {
    fc.assert(
      fc.property(fc.array(fc.string({ unit: 'grapheme' })), (texts) => {
        const { textBytes } = facts({
          messages: [
            { role: 'user', content: 'x' },
            ...texts.map((each) => ({ role: 'user', content: each })),
          ],
        });
        expect(textBytes).toBeGreaterThanOrEqual(Buffer.byteLength(texts.join('')));
      }),
    );
  });

  it.each([
    [{ model: 5 }, 'model'],
    [{ messages: [] }, 'messages'],
    [{ messages: 'hi' }, 'messages'],
    [{ n: 0 }, 'n'],
    [{ n: 1.5 }, 'n'],
    [{ max_tokens: -1 }, 'max_tokens'],
    [{ stream: 'yes' }, 'stream'],
    [{ stream_options: { include_usage: 1 } }, 'stream_options.include_usage'],
  ])('refuse %j', (more, param) => {
    expect(() => facts(more)).toThrow(expect.objectContaining({ status: 400, param }) as Error);
  });
});
