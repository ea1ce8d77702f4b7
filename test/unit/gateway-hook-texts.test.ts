import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { findAnswerTexts, replaceAnswerTexts } from '../../src/gateway/hooks/answer-texts.ts';
import { findTexts, hasTokenIds, replaceTexts } from '../../src/gateway/hooks/request-texts.ts';
import { parseExact } from '../../src/wires/core/json.ts';
import { findUnseenTexts } from '../../src/gateway/hooks/unseen-texts.ts';
import type { AnswerEvent } from '../../src/wires/core/answer.ts';

/** Members that may hold no text for a model. */
const skipped =
  /^(?:model|type|role|id|call_id|tool_call_id|tool_use_id|item_id|object|status|media_type|mime_type|detail|effort|tool_choice|reasoning_effort|service_tier|truncation|verbosity|encoding_format|signature|encrypted_content|file_data|data|url|image_url)$/;

type Body = Record<string, unknown>;
const textsOf = (body: Body) => findTexts(structuredClone(body)).map(({ path, text }) => `${path}=${text}`);

describe('the texts of a request', () => {
  it('are all texts, wherever they are, and can be replaced', () => {
    const name = fc.string({ minLength: 1 }).filter((one) => !skipped.test(one) && one !== '__proto__');
    fc.assert(
      fc.property(fc.dictionary(name, fc.jsonValue({ maxDepth: 4 })), (value) => {
        const body = JSON.parse(JSON.stringify({ messages: [{ content: value }] })) as Body;
        const found = findTexts(body);
        replaceTexts(found, new Map(found.map((_, index) => [index, '\u0001'])));
        const left: string[] = [];
        JSON.stringify(body, (member, inner: unknown) => {
          if (typeof inner === 'string' && inner !== '\u0001' && !skipped.test(member)) left.push(inner);
          return inner;
        });
        expect(left).toEqual([]);
      }),
    );
  });

  it('do not include what only names, images, files and signed reasoning', () => {
    expect(
      textsOf({
        model: 'm',
        messages: [
          {
            role: 'user',
            content: [
              { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA', detail: 'low' } },
              { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AAAA' } },
              { type: 'document', source: { type: 'text', media_type: 'text/plain', data: 'A text.' } },
              { type: 'file', file: { file_data: 'data:application/pdf;base64,AAAA', filename: 'a.pdf' } },
              { type: 'image_url', image_url: { url: 'https://x.test/a.png' } },
            ],
          },
          {
            role: 'assistant',
            content: [
              { type: 'thinking', thinking: 'Hm.', signature: 'c2ln' },
              { type: 'redacted_thinking', data: 'AAAA' },
              { type: 'tool_use', id: 't', name: 'f', input: { type: 'A secret type.', id: 'An id.' } },
            ],
          },
        ],
      }),
    ).toEqual([
      'messages.0.content.2.source.data=A text.',
      'messages.0.content.3.file.filename=a.pdf',
      'messages.0.content.4.image_url.url=https://x.test/a.png',
      'messages.1.content.2.name=f',
      'messages.1.content.2.input.type=A secret type.',
      'messages.1.content.2.input.id=An id.',
      'messages.1.content.2.input=id',
    ]);
  });

  it('include what only looks like an id, an image, a file or signed reasoning', () => {
    const hidden = {
      messages: [
        {
          role: 'user',
          tool_call_id: 'Call me Ann.',
          content: [
            { type: 'image_url', image_url: { url: 'data:text/plain,Look here.' } },
            { type: 'file', file: { file_data: 'data:text/plain,Read this.' } },
            { type: 'document', source: { type: 'text', data: 'A text.', format: 'x' } },
            { type: 'document', source: { type: 'base64', data: 'Not base64.' } },
            { type: 'thinking', thinking: 'Unsigned.', signature: '' },
          ],
        },
      ],
    };
    expect(textsOf(hidden).map((text) => text.replace(/^.*=/, ''))).toEqual([
      'Call me Ann.',
      'data:text/plain,Look here.',
      'data:text/plain,Read this.',
      'A text.',
      'x',
      'Not base64.',
      'Unsigned.',
    ]);
    const signed = { content: [{ type: 'thinking', thinking: 'Signed.', signature: 'c2ln' }] };
    expect([findTexts(signed).length, findTexts(signed, { isSigned: false }).length]).toEqual([0, 1]);
  });

  it("include the names of members in the caller's JSON, which are replaced in their places", () => {
    const body: Body = { call: { input: { 'ann@example.com': { b: 1 }, '[x]': 2, c: ['Text.'] } } };
    const texts = findTexts(body);
    expect(texts.map(({ path, text }) => `${path}=${text}`)).toEqual([
      'call.input.ann@example.com=b',
      'call.input=ann@example.com',
      'call.input=[x]',
      'call.input.c.0=Text.',
      'call.input=c',
    ]);
    replaceTexts(texts, new Map(texts.map(({ text }, index) => [index, text === 'Text.' ? 'New.' : '[x]'])));
    expect(JSON.stringify(body)).toBe('{"call":{"input":{"[x]":{"[x]":1},"[x] 2":2,"[x] 3":["New."]}}}');
  });

  it('leave long numbers as they are', () => {
    const value = parseExact('{"seed":12345678901234567890,"prompt":"x"}') as Body;
    expect(findTexts(value).map(({ path }) => path)).toEqual(['prompt']);
    expect(JSON.stringify(value)).toContain('12345678901234567890');
  });

  it('are none where a prompt has token ids', () => {
    expect([[1], [[1]], ['a', [2]], 3].every(hasTokenIds)).toBe(true);
    expect(['a', ['a'], [], undefined, null].some(hasTokenIds)).toBe(false);
  });
});

describe('the texts of an answer', () => {
  const events: AnswerEvent[] = [
    { type: 'start' },
    { type: 'reasoning', text: 'Let me ' },
    { type: 'reasoning', text: 'think.' },
    { type: 'reasoning_signature', signature: 's' },
    { type: 'text', text: 'One ' },
    { type: 'text', choice: 1, text: 'Other.' },
    { type: 'text', text: 'answer.' },
    { type: 'tool_call', index: 0, id: 'c', name: 'f' },
    { type: 'tool_arguments', index: 0, text: '{"a":' },
    { type: 'tool_arguments', index: 0, text: '1}' },
    { type: 'finish', reason: 'stop' },
  ];

  it('are joined by choice, kind and call', () => {
    expect(findAnswerTexts(events)).toEqual([
      { role: 'reasoning', choice: 0, text: 'Let me think.' },
      { role: 'assistant', choice: 0, text: 'One answer.' },
      { role: 'assistant', choice: 1, text: 'Other.' },
      { role: 'tool_call', choice: 0, name: 'f', text: '{"a":1}' },
    ]);
  });

  it('are replaced once, and nothing else is', () => {
    const replaced = replaceAnswerTexts(
      events,
      new Map([
        [1, 'New.'],
        [3, '{}'],
      ]),
    );
    expect(findAnswerTexts(replaced).map(({ text }) => text)).toEqual([
      'Let me think.',
      'New.',
      'Other.',
      '{}',
    ]);
    expect(replaced.filter(({ type }) => type === 'reasoning_signature')).toHaveLength(1);
    expect(replaced.at(-1)).toEqual(events.at(-1));
    expect(replaceAnswerTexts(events, new Map())).toEqual(events);
  });

  it('lose the signature of reasoning that is replaced', () => {
    const replaced = replaceAnswerTexts(events, new Map([[0, 'Thought.']]));
    expect(replaced.some(({ type }) => type === 'reasoning_signature')).toBe(false);
  });
});

describe('the texts that the events of an answer do not have', () => {
  it('are joined over the frames of a stream, by the call and the choice that they belong to', () => {
    const call = (index: number, input: string) => ({
      choices: [{ index: 0, delta: { tool_calls: [{ index, custom: { input } }] } }],
    });
    const frames = [
      {
        id: 'c',
        object: 'chat.completion.chunk',
        choices: [{ index: 0, delta: { role: 'assistant', content: 'Se' } }],
      },
      { choices: [{ index: 0, delta: { content: 'en.' } }] },
      { choices: [{ index: 1, delta: { audio: { transcript: 'Hid', data: 'AAAA' } } }] },
      call(0, 'se'),
      call(1, 'ot'),
      call(0, 'cret'),
      call(1, 'her'),
      { choices: [{ index: 1, delta: { audio: { transcript: 'den.', data: 'BBBB' } } }] },
      { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }], usage: { cost_text: 'x' } },
    ];
    const text = `${frames.map((frame) => `data: ${JSON.stringify(frame)}\n\n`).join('')}data: [DONE]\n\n`;
    expect(findUnseenTexts(text, true, [{ role: 'assistant', choice: 0, text: 'Seen.' }])).toEqual([
      { role: 'other', path: 'choices.1.delta.audio.transcript', text: 'Hidden.' },
      { role: 'other', path: 'choices.0.delta.tool_calls.0.custom.input', text: 'secret' },
      { role: 'other', path: 'choices.0.delta.tool_calls.1.custom.input', text: 'other' },
    ]);
  });

  it('are not those of the request, which a response repeats', () => {
    const response = {
      id: 'resp_1',
      object: 'response',
      instructions: 'Be brief.',
      output: [{ type: 'custom_tool_call', id: 'c', name: 'f', input: 'Hidden.' }],
    };
    const expected = ['f', 'Hidden.'];
    expect(findUnseenTexts(JSON.stringify(response), false, []).map(({ text }) => text)).toEqual(expected);
    const frame = `data: ${JSON.stringify({ type: 'response.completed', response })}\n\n`;
    expect(findUnseenTexts(frame, true, []).map(({ text }) => text)).toEqual(expected);
  });
});
