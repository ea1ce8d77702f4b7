import fc from 'fast-check';
import { afterAll, describe, expect, test, vi } from 'vitest';
import { WireError } from '../../src/wires/core/error.ts';
import type { AnswerEvent } from '../../src/wires/core/answer.ts';
import type { Part } from '../../src/wires/core/conversation.ts';
import { responsesWire } from '../../src/wires/responses/client.ts';
import { openaiResponses } from '../../src/wires/responses/upstream.ts';
import { framesOf, payloadsOf } from '../support/gateway/frames.ts';
import { openApiDocument, schemaFaults } from '../support/gateway/schemas.ts';
import { aboutOf, clientRequest, merged, receipt, streamed } from '../support/gateway-responses.ts';
import { describeShared } from '../support/shared.ts';

type Json = Record<string, unknown>;

// A response names the second in which it ended; without this, two writers may end in different ones.
vi.useFakeTimers({ toFake: ['Date'], now: 1_790_000_001_000 });
afterAll(() => {
  vi.useRealTimers();
});

const usage = { fresh: 7, cacheWrite: 2, cacheWrite1h: 3, cacheRead: 4, output: 9, reasoning: 5 };
const logprob = { token: 'ü', logprob: -0.5, bytes: null };
const everything: AnswerEvent[] = [
  { type: 'start', id: 'x' },
  { type: 'reasoning', text: 'Let me' },
  { type: 'reasoning', text: ' see.' },
  { type: 'reasoning_signature', signature: 's1' },
  { type: 'encrypted_reasoning', data: 'd1' },
  { type: 'usage', usage: { ...usage, output: 1 } },
  { type: 'text', text: 'I ', logprobs: [{ ...logprob, top_logprobs: [logprob] }] },
  { type: 'text', text: 'look.' },
  { type: 'refusal', text: 'No.' },
  { type: 'tool_call', index: 0, id: 'c0', name: 'weather', signature: 'g0' },
  { type: 'tool_arguments', index: 0, text: '{"city":' },
  { type: 'tool_arguments', index: 0, text: '"Oslo"}' },
  { type: 'tool_call', index: 1, id: 'c1', name: 'time' },
  { type: 'finish', reason: 'tool_calls' },
  { type: 'usage', usage },
];
const fault = new WireError(429, 'rate_limit_error', 'Too many.', { code: 'rate_limit_exceeded' });
const brief = ({ type, output_index: index }: Json) =>
  typeof index === 'number' ? `${index} ${String(type).replace('response.', '')}` : type;

describe('the events of a response', () => {
  const events = payloadsOf(streamed(everything));

  test('come in the order of the wire, numbered, each named as its type', () => {
    expect(events.map(brief)).toEqual(
      [
        'response.created',
        'response.in_progress',
        '0 output_item.added',
        '0 reasoning_summary_part.added',
        '0 reasoning_summary_text.delta',
        '0 reasoning_summary_text.delta',
        '0 reasoning_summary_text.done',
        '0 reasoning_summary_part.done',
        '0 output_item.done',
        '1 output_item.added',
        '1 output_item.done',
        '2 output_item.added',
        '2 content_part.added',
        '2 output_text.delta',
        '2 output_text.delta',
        '2 output_text.done',
        '2 content_part.done',
        '2 content_part.added',
        '2 refusal.delta',
        '2 refusal.done',
        '2 content_part.done',
        '2 output_item.done',
        '3 output_item.added',
        '3 output_item.done',
        '4 output_item.added',
        '4 function_call_arguments.delta',
        '4 function_call_arguments.delta',
        '4 function_call_arguments.done',
        '4 output_item.done',
        '5 output_item.added',
        '5 function_call_arguments.delta',
        '5 function_call_arguments.done',
        '5 output_item.done',
        'response.completed',
      ].map((each) => each),
    );
    expect(events.map(({ sequence_number: number }) => number)).toEqual(events.map((_, index) => index));
    for (const { event, data } of framesOf(streamed(everything)))
      expect(event).toBe((JSON.parse(data) as Json)['type']);
  });

  test('end with the complete response: its items and the last usage', () => {
    const response = events.at(-1)?.['response'] as Json;
    expect(response).toMatchObject({
      status: 'completed',
      model: 'house/model',
      created_at: 1_790_000_000,
      completed_at: 1_790_000_001,
      output: [
        {
          type: 'reasoning',
          summary: [{ type: 'summary_text', text: 'Let me see.' }],
          encrypted_content: 'lathe:["signature","s1"]',
        },
        { type: 'reasoning', summary: [], encrypted_content: 'lathe:["sealed","d1"]' },
        {
          type: 'message',
          status: 'completed',
          content: [
            {
              type: 'output_text',
              text: 'I look.',
              annotations: [],
              logprobs: [{ token: 'ü', bytes: [195, 188] }],
            },
            { type: 'refusal', refusal: 'No.' },
          ],
        },
        { type: 'reasoning', summary: [], encrypted_content: 'lathe:["call","c0","g0"]' },
        {
          type: 'function_call',
          call_id: 'c0',
          name: 'weather',
          arguments: '{"city":"Oslo"}',
          status: 'completed',
        },
        { type: 'function_call', call_id: 'c1', name: 'time', arguments: '{}', status: 'completed' },
      ],
      usage: {
        input_tokens: 16,
        input_tokens_details: { cached_tokens: 4, cache_write_tokens: 5 },
        output_tokens: 9,
        output_tokens_details: { reasoning_tokens: 5 },
        total_tokens: 25,
      },
    });
    const done = events.filter(({ type }) => type === 'response.output_item.done').map(({ item }) => item);
    expect(response['output']).toEqual(done);
    const ids = done.map((item) => (item as Json)['id'] as string);
    expect(new Set(ids).size).toBe(6);
    for (const id of ids) expect(id).toMatch(/^(rs|msg|fc)_[0-9a-f]{48}$/);
  });

  test('a body equals the end of the stream, except for its ids', () => {
    const withoutIds = (value: unknown) => JSON.stringify(value).replaceAll(/_[0-9a-f]{48}/g, '');
    const body = responsesWire.body(everything, aboutOf());
    expect(withoutIds(body)).toBe(withoutIds(events.at(-1)?.['response']));
  });

  test('arguments of parallel calls may be interleaved', () => {
    const [first, second] = payloadsOf(
      streamed([
        { type: 'tool_call', index: 0, id: 'a', name: 'x' },
        { type: 'tool_arguments', index: 0, text: '{"n":' },
        { type: 'tool_call', index: 1, id: 'b', name: 'y' },
        { type: 'tool_arguments', index: 1, text: '{"n":2' },
        { type: 'tool_arguments', index: 0, text: '1}' },
        { type: 'tool_arguments', index: 1, text: '}' },
        { type: 'finish', reason: 'tool_calls' },
      ]),
    ).flatMap(({ type, response }) =>
      type === 'response.completed' ? ((response as Json)['output'] as Json[]) : [],
    );
    expect([first, second]).toMatchObject([
      { call_id: 'a', arguments: '{"n":1}', status: 'completed' },
      { call_id: 'b', arguments: '{"n":2}', status: 'completed' },
    ]);
  });

  test.each([
    ['length', 'max_output_tokens'],
    ['content_filter', 'content_filter'],
  ] as const)('an answer cut by %s is incomplete', (reason, incompleteReason) => {
    const cut = payloadsOf(
      streamed([
        { type: 'text', text: 'so far' },
        { type: 'finish', reason },
        { type: 'usage', usage },
      ]),
    ).at(-1);
    expect(cut).toMatchObject({
      type: 'response.incomplete',
      response: {
        status: 'incomplete',
        incomplete_details: { reason: incompleteReason },
        completed_at: null,
        output: [{ type: 'message', status: 'incomplete' }],
        usage: { output_tokens: 9 },
      },
    });
  });

  test('a call with truncated arguments is incomplete', () => {
    const cut: AnswerEvent[] = [
      { type: 'tool_call', index: 0, id: 'a', name: 'x' },
      { type: 'tool_arguments', index: 0, text: '{"n":' },
      { type: 'finish', reason: 'tool_calls' },
    ];
    expect(responsesWire.body(cut, aboutOf())).toMatchObject({ output: [{ status: 'incomplete' }] });
  });

  test('an empty answer has a message', () => {
    const body = responsesWire.body([{ type: 'finish', reason: 'stop' }], aboutOf());
    expect(body).toMatchObject({
      output: [{ type: 'message', content: [{ type: 'output_text', text: '' }] }],
    });
  });

  test('a failure is an error event and a failed response, and nothing comes after', () => {
    const writer = responsesWire.writer(aboutOf());
    const text = writer.write({ type: 'text', text: 'so far' }) + writer.fail(fault);
    const [error, failed] = payloadsOf(text).slice(-2);
    expect(error).toEqual({
      type: 'error',
      sequence_number: 5,
      code: 'rate_limit_exceeded',
      message: 'Too many.',
      param: null,
      error: { message: 'Too many.', type: 'rate_limit_error', param: null, code: 'rate_limit_exceeded' },
    });
    expect(failed).toMatchObject({
      type: 'response.failed',
      sequence_number: 6,
      response: {
        status: 'failed',
        error: { code: 'rate_limit_exceeded', message: 'Too many.' },
        output: [{ type: 'message', status: 'incomplete', content: [{ text: 'so far' }] }],
      },
    });
    const after = [writer.write({ type: 'text', text: 'x' }), writer.end(receipt), writer.fail(fault)];
    expect(after).toEqual(['', '', '']);
  });

  test('a failure before anything begins the stream first', () => {
    expect(payloadsOf(responsesWire.writer(aboutOf()).fail(fault)).map(brief)).toEqual([
      'response.created',
      'response.in_progress',
      'error',
      'response.failed',
    ]);
  });

  test('errors of the route have the envelope of all wires', () => {
    expect(responsesWire.errorBody(fault, 'req_1')).toEqual({ error: fault.body });
  });
});

const piece = fc.string({ minLength: 1, maxLength: 8 });
const jsonText = fc
  .dictionary(fc.string({ maxLength: 3 }), fc.jsonValue({ maxDepth: 1 }))
  .map((each) => JSON.stringify(each));
const cutUp = (text: string) => text.match(/[\s\S]{1,3}/g) ?? [];
type Block = (call: () => number) => AnswerEvent[];
const block: fc.Arbitrary<Block> = fc.oneof(
  fc.array(piece, { minLength: 1, maxLength: 3 }).map(
    (texts): Block =>
      () =>
        texts.map((text) => ({ type: 'text', text })),
  ),
  piece.map(
    (text): Block =>
      () => [{ type: 'refusal', text }],
  ),
  fc.record({ texts: fc.array(piece, { maxLength: 3 }), signature: piece }).map(
    ({ texts, signature }): Block =>
      () => [
        ...texts.map((text) => ({ type: 'reasoning' as const, text })),
        { type: 'reasoning_signature', signature },
      ],
  ),
  piece.map(
    (data): Block =>
      () => [{ type: 'encrypted_reasoning', data }],
  ),
  fc.record({ name: piece, text: jsonText, signature: fc.option(piece, { nil: undefined }) }).map(
    ({ name, text, signature }): Block =>
      (call) => {
        const index = call();
        const sealed = signature === undefined ? {} : { signature };
        return [
          { type: 'tool_call', index, id: `call_${index}`, name, ...sealed },
          ...cutUp(text).map((each) => ({ type: 'tool_arguments' as const, index, text: each })),
        ];
      },
  ),
);
const answers = fc.array(block, { maxLength: 6 }).map((blocks) => {
  let calls = 0;
  const contents = blocks.flatMap((make) => make(() => calls++));
  return [
    ...contents,
    { type: 'usage' as const, usage: { ...usage, cacheWrite: 5, cacheWrite1h: 0 } },
    { type: 'finish' as const, reason: calls > 0 ? ('tool_calls' as const) : ('stop' as const) },
  ];
});

describe('whatever the answer', () => {
  test('what is written is read back identically', () => {
    fc.assert(
      fc.property(answers, (events) => {
        const reader = openaiResponses.reader();
        const read = framesOf(streamed(events)).flatMap((frame) => reader.push(frame));
        expect(reader.end()).toEqual([]);
        const body = openaiResponses.answer(JSON.stringify(responsesWire.body(events, aboutOf())));
        const plain = (list: readonly AnswerEvent[]) =>
          merged(
            list.filter(
              ({ type }) => !['start', 'encrypted_reasoning', 'reasoning_signature'].includes(type),
            ),
          ).map((event) => (event.type === 'tool_call' ? { ...event, signature: undefined } : event));
        expect(plain(read)).toEqual(plain(events));
        expect(plain(body)).toEqual(plain(events));
      }),
      { numRuns: 300 },
    );
  });

  test('its output, sent back, is the content of the model, including signatures', () => {
    fc.assert(
      fc.property(answers, (events) => {
        const { output } = responsesWire.body(events, aboutOf()) as { output: unknown[] };
        const { messages } = responsesWire.conversation(clientRequest({ model: 'm', input: output }));
        const back = messages.flatMap(({ parts }) => parts);
        const parts = partsOf(events);
        // Without content there is one empty message.
        expect(back).toEqual(parts.length > 0 ? parts : [{ type: 'text', text: '' }]);
      }),
      { numRuns: 300 },
    );
  });
});

/** The message parts of an answer. */
function partsOf(events: readonly AnswerEvent[]): Part[] {
  const parts: Part[] = [];
  let thought = '';
  for (const event of merged(events)) {
    if (event.type === 'text' || event.type === 'refusal') parts.push({ type: event.type, text: event.text });
    if (event.type === 'reasoning') thought = event.text;
    if (event.type === 'reasoning_signature') {
      parts.push({ type: 'reasoning', text: thought, signature: event.signature });
      thought = '';
    }
    if (event.type === 'encrypted_reasoning') parts.push({ type: 'encrypted_reasoning', data: event.data });
    if (event.type === 'tool_call') {
      const { id, name, index, signature } = event;
      const text = events
        .flatMap((each) => (each.type === 'tool_arguments' && each.index === index ? [each.text] : []))
        .join('');
      const sealed = signature === undefined ? {} : { signature };
      parts.push({ type: 'tool_call', id, name, arguments: text, ...sealed });
    }
  }
  return parts;
}

describeShared("OpenAI's published schema", [openApiDocument], () => {
  const tools = [
    { type: 'function', name: 'weather', description: 'd', parameters: { type: 'object' }, strict: true },
    { type: 'function', name: 'time' },
  ];
  const full = {
    model: 'm',
    input: 'hi',
    instructions: 'Be brief.',
    tools,
    tool_choice: { type: 'allowed_tools', mode: 'auto', tools: [{ type: 'function', name: 'time' }] },
    text: { format: { type: 'json_schema', name: 'x', schema: { type: 'object' }, description: 'd' } },
    reasoning: { effort: 'max', summary: 'auto' },
    metadata: { a: 'b' },
    max_output_tokens: 50,
    top_logprobs: 2,
    user: 'me',
    safety_identifier: 's',
    prompt_cache_key: 'k',
  };
  /** What Open Responses wants in every response, null or not. */
  const always =
    'id object created_at completed_at status incomplete_details model previous_response_id instructions output error tools tool_choice truncation parallel_tool_calls text top_p presence_penalty frequency_penalty top_logprobs temperature reasoning usage max_output_tokens max_tool_calls store background service_tier metadata safety_identifier prompt_cache_key'.split(
      ' ',
    );

  test.each([
    ['little', { model: 'm', input: 'hi' }],
    ['much', full],
  ])('accepts every event and the body of an answer to a request that says %s', (_, request) => {
    const about = aboutOf(request);
    for (const event of payloadsOf(streamed(everything, responsesWire.writer(about)))) {
      expect(schemaFaults('responses', 'chunk', event)).toEqual([]);
      if ('response' in event)
        expect(Object.keys(event['response'] as Json)).toEqual(expect.arrayContaining(always));
    }
    const body = responsesWire.body(everything, about);
    expect(schemaFaults('responses', 'body', body)).toEqual([]);
    for (const tool of (body as { tools: Json[] }).tools)
      expect(Object.keys(tool)).toEqual(['type', 'name', 'description', 'parameters', 'strict']);
  });

  test('accepts any answer: complete, truncated or failed', () => {
    fc.assert(
      fc.property(answers, fc.constantFrom('whole', 'cut', 'broken'), (events, end) => {
        const writer = responsesWire.writer(aboutOf());
        const text = events
          .map((event) =>
            writer.write(
              event.type === 'finish' && end === 'cut' ? { type: 'finish', reason: 'length' } : event,
            ),
          )
          .join('');
        for (const event of payloadsOf(text + (end === 'broken' ? writer.fail(fault) : writer.end(receipt))))
          expect(schemaFaults('responses', 'chunk', event)).toEqual([]);
      }),
      { numRuns: 40 },
    );
  });

  test('accepts the flat form of the error as well', () => {
    const events = payloadsOf(responsesWire.writer(aboutOf()).fail(fault));
    const { error: _, ...flat } = events.find(({ type }) => type === 'error') ?? {};
    expect(schemaFaults('responses', 'chunk', flat)).toEqual([]);
    expect(schemaFaults('responses', 'chunk', { ...flat, message: undefined })).not.toEqual([]);
  });
});
