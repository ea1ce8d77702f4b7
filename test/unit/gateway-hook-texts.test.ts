import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { findAnswerTexts, replaceAnswerTexts } from '../../src/gateway/hooks/answer-texts.ts';
import { findTexts, hasTokenIds } from '../../src/gateway/hooks/request-texts.ts';
import { parseExact } from '../../src/wires/core/json.ts';
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
        for (const { replace } of findTexts(body)) replace('\u0001');
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
    ]);
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
