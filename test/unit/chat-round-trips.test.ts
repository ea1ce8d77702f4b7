import { expect, it } from 'vitest';
import { type ChatInput, type ChatTurn, prepareChat } from '../../src/chat/index.ts';
import type { ReasoningDelimiters } from '../../src/chat/parser/answer-parser.ts';
import { getTemplateCapabilities } from '../../src/chat/template/capabilities.ts';
import type { ChatTemplate } from '../../src/engine/tokenizer/types.ts';
import { collected, letters } from '../support/chat-answers.ts';
import { model, realTemplates, tokenizer } from '../support/real-templates.ts';
import { describeShared } from '../support/shared.ts';

const ofType = (type: string | readonly string[]) => ({ type, description: 'a value' });
const tools = [
  {
    name: 'set_values',
    description: 'Sets them',
    parameters: {
      type: 'object',
      properties: {
        text: ofType('string'),
        note: ofType('string'),
        size: ofType('number'),
        count: ofType('integer'),
        on: ofType('boolean'),
        // The schema that clients send for optional members.
        maybe: ofType(['string', 'null']),
        either: { anyOf: [{ type: 'integer' }, { type: 'null' }], default: null },
        place: { $ref: '#/$defs/place' },
        items: { type: 'array', description: 'a list', items: {} },
      },
      required: ['text'],
      $defs: { place: { type: 'object' } },
    },
  },
  { name: 'now' },
];
const call = (values: Readonly<Record<string, unknown>>) => ({ name: 'set_values', arguments: values });
const now = { name: 'now', arguments: {} };
const unicode = call({ text: 'héllo "quoted" \\ back\nnew line\ttab 😀 日本', note: '' });
const nested = call({
  text: 'it\'s </tool_call> & <b>html</b> {"x": 1}',
  place: { deep: { list: [1, 'two', null, { k: [] }], 'a key': 'v' }, empty: {} },
  items: ['x', 2.5, null, true, [], {}],
});
const rounds: Readonly<Record<string, readonly { name: string; arguments: unknown }[]>> = {
  'texts of every kind': [unicode],
  'values of every kind': [
    call({ text: 'v', size: -0.0015, count: 42, on: true, maybe: null, either: null }),
  ],
  'nested values and names that are methods in Python': [nested],
  'texts that look like other values': [
    call({ text: '123', note: 'null' }),
    call({ text: '[1]', on: false }),
  ],
  'white space': [call({ text: '  around  ', note: 'line\n\nline\n' })],
  'no arguments': [now],
  'several calls': [unicode, now, nested],
};

/** Templates that @huggingface/jinja cannot run. */
const refused = ['ByteDance-Seed-OSS', 'MiroThinker'];
/** Templates whose rendering of calls cannot be parsed. */
const unreadable: Readonly<Record<string, readonly string[]>> = {
  // The third call is after the end of the answer.
  'deepseek-ai-DeepSeek-R1-Distill-Llama-8B': ['several calls'],
  'deepseek-ai-DeepSeek-R1-Distill-Qwen-32B': ['several calls'],
};

/**
 * Start of the answer in the later prompt: after the first prompt, or where that opened reasoning, which is not
 * repeated.
 */
function answerStart(promptText: string, later: string, reasoning: ReasoningDelimiters | undefined) {
  if (later.startsWith(promptText) || !reasoning) return { start: promptText.length, isOpen: false };
  const start = Math.max(...reasoning.open.map((open) => promptText.lastIndexOf(open.trim())));
  return { start, isOpen: !reasoning.close.some((close) => promptText.trimEnd().endsWith(close)) };
}

describeShared('whole turns of real templates', ['data/chat/golden-chat.json'], (path) => {
  const served = realTemplates(path).filter(([name]) => !refused.includes(name));
  const prepared = (chatTemplate: ChatTemplate, input: ChatInput) =>
    prepareChat({ tokenizer, chatTemplate, model }, input);

  it.each(served)('%s: parses what its template renders for past calls', async (name, chatTemplate) => {
    const { callMessageShape: callForm, reasoning } = getTemplateCapabilities(chatTemplate);
    for (const [round, calls] of Object.entries(rounds)) {
      if (unreadable[name]?.includes(round)) continue;
      const user: ChatTurn = { role: 'user', content: 'QUESTION' };
      const id = (index: number) => `call_abcdefghijklmnop${index}`;
      const turn: ChatTurn = {
        role: 'assistant',
        content: '',
        toolCalls: calls.map((one, index) => ({ ...one, id: id(index) })),
      };
      const results = calls.map(
        (_, index): ChatTurn => ({
          role: 'tool',
          content: `RESULT${index} </tool_response>`,
          callId: id(index),
        }),
      );
      const question = await prepared(chatTemplate, { messages: [user], tools });
      const later = await prepared(chatTemplate, { messages: [user, turn, ...results], tools });
      const { start, isOpen } = answerStart(question.text, later.text, reasoning);
      expect(later.text.slice(0, start), round).toBe(question.text.slice(0, start));
      const thought = isOpen ? `so ${reasoning?.close[0]}` : '';
      const written = thought + later.text.slice(start, later.text.indexOf('RESULT0'));
      for (const pieces of [[written], letters(written)]) {
        const read = collected(question.parser(), pieces);
        const got = read.calls.map((one) => ({
          name: one.name,
          arguments: JSON.parse(one.arguments) as unknown,
        }));
        expect(got, `${round}: ${written}`).toEqual(
          callForm?.isOneMessage === false ? calls.slice(0, 1) : calls,
        );
      }
    }
  });
});
