import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { type ChatInput, type ChatTurn, getChatTraits, prepareChat } from '../../src/chat/index.ts';
import type { ChatTemplate } from '../../src/engine/tokenizer/types.ts';
import { translateToXGrammar } from '../../src/grammar/translate.ts';
import { getTemplateCapabilities } from '../../src/chat/template/capabilities.ts';
import { model, realTemplates, tokenizer } from '../support/real-templates.ts';
import { describeShared } from '../support/shared.ts';

/** The expected capabilities of each template: tool call format, message shape, tools, reasoning delimiters. */
const families: Readonly<Record<string, string>> = {
  'Apertus-8B-Instruct': 'apertus <|inner_prefix|>',
  'Bielik-11B-v3.0-Instruct': 'hermes <think>',
  Cohere2MoE: 'command <|START_THINKING|>',
  'CohereForAI-c4ai-command-r7b-12-2024-tool_use': 'command <|START_THINKING|>',
  'GLM-4.6': 'glm <think>',
  'GLM-4.7-Flash': 'glm <think>',
  'GigaChat3-10B-A1.8B': 'gigachat',
  'GigaChat3.1-10B-A1.8B': 'gigachat',
  'HuggingFaceTB-SmolLM3-3B': 'hermes, tools and calls as text <think>',
  'Kimi-K2-Thinking': 'kimi, calls as text <think>',
  'LFM2-8B-A1B': 'lfm, calls as text',
  'LFM2.5-Instruct': 'lfm, calls as text <think>',
  'Mistral-Small-3.2-24B-Instruct-2506': 'mistral-named',
  'NVIDIA-Nemotron-3-Nano-30B-A3B-BF16': 'qwen-coder <think>',
  'NousResearch-Hermes-3-Llama-3.1-8B-tool_use': 'hermes',
  'Qwen-QwQ-32B': 'hermes <think>',
  'Qwen-Qwen2.5-7B-Instruct': 'hermes',
  'Qwen3-Coder': 'qwen-coder',
  'Qwen3.5-4B': 'qwen-coder <think>',
  'Reka-Edge': 'hermes <think>',
  'deepseek-ai-DeepSeek-R1-Distill-Llama-8B': 'deepseek-fenced, tools as text <think>',
  'deepseek-ai-DeepSeek-R1-Distill-Qwen-32B': 'deepseek-fenced, tools as text <think>',
  'deepseek-ai-DeepSeek-V3.1': 'deepseek-named, tools as text <think>',
  'deepseek-ai-DeepSeek-V4': 'deepseek-markup <think>',
  'fireworks-ai-llama-3-firefunction-v2': 'functools',
  'google-gemma-2-2b-it': 'hermes, tools and calls as text',
  'google-gemma-4-31B-it': 'gemma <|channel>thought',
  'ibm-granite-granite-3.3-2B-Instruct': 'granite, calls as text <think>',
  'llama-cpp-deepseek-r1': 'deepseek-fenced <think>',
  'meetkai-functionary-medium-v3.1': 'function-tag',
  'meetkai-functionary-medium-v3.2': 'functionary, tools and calls as text',
  'meta-llama-Llama-3.1-8B-Instruct': 'llama',
  'meta-llama-Llama-3.3-70B-Instruct': 'llama',
  'microsoft-Phi-3.5-mini-instruct': 'hermes, tools and calls as text',
  'mistralai-Ministral-3-14B-Reasoning-2512': 'mistral-named [THINK]',
  'moonshotai-Kimi-K2': 'kimi',
  'openai-gpt-oss-120b': 'harmony <|channel|>analysis<|message|>',
  'stepfun-ai-Step-3.5-Flash': 'qwen-coder <think>',
  'unsloth-mistral-Devstral-Small-2507': 'mistral-named',
  gemma4_31b_chat_template: 'gemma <|channel>thought',
  gemma4_e2b_chat_template: 'gemma <|channel>thought',
  laguna_v2_chat_template: 'glm <think>',
  laguna_v8_chat_template: 'glm <think>',
  nemotron35_chat_template: 'qwen-coder <think>',
  qwen38_chat_template: 'qwen-coder <think>',
  gemma3n: 'hermes, tools and calls as text',
  smollm3: 'hermes, calls as text <think>',
};
/** Templates that @huggingface/jinja cannot run, or not with past answers. */
const refused: Readonly<Record<string, RegExp>> = {
  'ByteDance-Seed-OSS': /Object keys must be strings/,
  MiroThinker: /cannot assign attribute/,
};
/** Templates that drop the content of messages with calls. */
const callsOnly = new Set(['Mistral-Small-3.2-24B-Instruct-2506']);

const add = {
  name: 'add_numbers',
  description: 'Adds numbers',
  parameters: {
    type: 'object',
    properties: { a: { type: 'integer' }, note: { type: 'string', enum: ['x', 'y'] } },
    required: ['a'],
  },
};
const roundTrip: readonly ChatTurn[] = [
  { role: 'system', content: 'SYSTEM' },
  { role: 'user', content: 'QUESTION' },
  {
    role: 'assistant',
    content: 'SAYING',
    reasoning: 'THOUGHT',
    toolCalls: [
      { id: 'call_abcdefghijklmnop1', name: 'add_numbers', arguments: { a: 111, note: 'é "x"' } },
      { id: 'call_abcdefghijklmnop2', name: 'add_numbers', arguments: { a: 222 } },
    ],
  },
  { role: 'tool', content: 'FIRST RESULT', callId: 'call_abcdefghijklmnop1' },
  { role: 'tool', content: 'SECOND RESULT', callId: 'call_abcdefghijklmnop2' },
  { role: 'assistant', content: 'ANSWER' },
  { role: 'user', content: 'NEXT QUESTION' },
];

/** Constraints without reasoning. */
const grammarOf = async (chatTemplate: ChatTemplate, input: Partial<ChatInput>) => {
  const messages = [{ role: 'user' as const, content: 'QUESTION' }];
  const prepared = await prepareChat(
    { tokenizer, chatTemplate, model },
    { messages, tools: [add], ...input },
  );
  return prepared.grammar;
};

describeShared('the families of real chat templates', ['data/chat/golden-chat.json'], (path) => {
  beforeEach(() => {
    vi.useFakeTimers({ now: new Date(2026, 10, 21, 12), toFake: ['Date'] });
  });
  afterEach(() => {
    vi.useRealTimers();
  });
  const templates = realTemplates(path);
  const served = templates.filter(([name]) => !refused[name]);

  it('every template is in one of the lists', () => {
    const names = templates.map(([name]) => name).sort();
    expect([...Object.keys(families), ...Object.keys(refused)].sort()).toEqual(names);
  });

  it.each(served)('%s: has its own tool call format', (name, template) => {
    const facts = getTemplateCapabilities(template);
    const texts = [facts.toolVariable ? '' : 'tools', facts.callMessageShape ? '' : 'calls'].filter(
      (one) => one !== '',
    );
    const asText = texts.length > 0 ? `, ${texts.join(' and ')} as text` : '';
    const marks = facts.reasoning ? ` ${facts.reasoning.open[0]?.trim()}` : '';
    expect(`${facts.toolCallFormat.name}${asText}${marks}`).toBe(families[name]);
    expect(getChatTraits({ chatTemplate: template })).toEqual({
      toolStyle: facts.toolVariable ? facts.toolCallFormat.name : undefined,
      reasoning: facts.reasoning !== undefined,
    });
  });

  it.each(served)(
    '%s: the prompt contains a complete round of calls and results',
    async (name, chatTemplate) => {
      const input = { messages: roundTrip, tools: [add] };
      const { text } = await prepareChat({ tokenizer, chatTemplate, model }, input);
      const order = ['QUESTION', 'SAYING', '111', 'FIRST RESULT', 'SECOND RESULT', 'ANSWER', 'NEXT QUESTION'];
      let at = 0;
      for (const part of order) {
        if (part === 'SAYING' && callsOnly.has(name)) continue;
        const found = text.indexOf(part, at);
        expect(found, `${part} in ${text.slice(at)}`).not.toBe(-1);
        at = found + part.length;
      }
      for (const part of ['SYSTEM', '222', 'add_numbers', 'Adds numbers']) expect(text).toContain(part);
      expect(text).toMatch(/é|\\u00e9/);
      for (const wrong of ['[object', 'undefined', '\\"a\\":', "{'a'"]) expect(text).not.toContain(wrong);
    },
  );

  it.each(served)(
    '%s: the prompt contains several system messages, also later ones',
    async (_, chatTemplate) => {
      const messages: ChatTurn[] = [
        { role: 'system', content: 'FIRST INSTRUCTION' },
        { role: 'system', content: 'SECOND INSTRUCTION' },
        { role: 'user', content: 'QUESTION' },
        { role: 'assistant', content: 'ANSWER' },
        { role: 'system', content: 'LATER INSTRUCTION' },
        { role: 'user', content: 'NEXT QUESTION' },
      ];
      const { text } = await prepareChat({ tokenizer, chatTemplate, model }, { messages, tools: [add] });
      for (const { content } of messages) expect(text).toContain(content);
    },
  );

  it.each(served)('%s: an answer continues the last message', async (name, chatTemplate) => {
    const messages: ChatTurn[] = [
      { role: 'user', content: 'QUESTION' },
      { role: 'assistant', content: 'It begins ' },
    ];
    const tools = name.includes('tool_use') || name.includes('firefunction') ? { tools: [add] } : {};
    const going = await prepareChat(
      { tokenizer, chatTemplate, model },
      { messages, continueLast: true, ...tools },
    );
    expect(going.text).toMatch(/It begins $/);
    expect(going.parser().push('and goes on.')).toEqual([{ type: 'content', text: 'and goes on.' }]);
  });

  it.each(served)('%s: answers can be constrained in every way', async (_, chatTemplate) => {
    const ways: readonly Partial<ChatInput>[] = [
      {},
      { toolChoice: 'required' },
      { toolChoice: { name: 'add_numbers' }, parallelToolCalls: false },
      { parallelToolCalls: false },
      { output: { kind: 'json' } },
      { output: { kind: 'json' }, tools: [] },
      { output: { kind: 'choice', texts: ['yes', 'no'] }, tools: [] },
      { output: { kind: 'regex', pattern: '[a-z]+' }, thinking: false, tools: [] },
      { toolChoice: 'required', thinking: 'high' },
    ];
    for (const way of ways) {
      const grammar = await grammarOf(chatTemplate, way);
      if (grammar) expect(translateToXGrammar(grammar, { allowLengthMarks: true }).text).toContain('root');
      if (way.toolChoice) expect(JSON.stringify(grammar)).toContain('add_numbers');
      if (way.output) expect(grammar).toBeDefined();
    }
    const none = await grammarOf(chatTemplate, { toolChoice: 'none' });
    expect(JSON.stringify(none ?? {})).not.toContain('add_numbers');
    if (none) expect(translateToXGrammar(none, { allowLengthMarks: true }).text).toContain('root');
  });

  it.each(Object.entries(refused))('%s: is rejected with a message', async (name, words) => {
    const chatTemplate = templates.find(([one]) => one === name)?.[1] as ChatTemplate;
    await expect(
      prepareChat({ tokenizer, chatTemplate, model }, { messages: roundTrip, tools: [add] }),
    ).rejects.toMatchObject({ code: 'chat_template_error', message: expect.stringMatching(words) });
  });

  describe('thinking', () => {
    const ending = async (name: string, input: Partial<ChatInput>) => {
      const chatTemplate = templates.find(([one]) => one === name)?.[1] as ChatTemplate;
      const messages = [{ role: 'user' as const, content: 'Hi' }];
      return await prepareChat({ tokenizer, chatTemplate, model }, { messages, ...input });
    };

    it.each([
      ['Qwen3.5-4B', '<think>\n', '</think>\n\n'],
      ['GLM-4.7-Flash', '<think>', '</think>'],
      ['deepseek-ai-DeepSeek-V3.1', '<think>', '<think></think>'],
      ['Qwen-QwQ-32B', '<think>\n', '<think>\n</think>'],
    ])(
      '%s: the template gets the reasoning effort, and the answer is parsed accordingly',
      async (name, on, off) => {
        const thinking = await ending(name, { thinking: true });
        expect(thinking.text.endsWith(on)).toBe(true);
        expect(thinking.parser().push('so</think>Yes.')).toEqual([
          { type: 'reasoning', text: 'so' },
          { type: 'content', text: 'Yes.' },
        ]);
        const plain = await ending(name, { thinking: false });
        expect(plain.text.endsWith(off)).toBe(true);
        expect(plain.parser().push('\nYes.')).toEqual([{ type: 'content', text: 'Yes.' }]);
      },
    );

    it('a family without reasoning keeps leading white space of an answer', async () => {
      const prepared = await ending('Qwen-Qwen2.5-7B-Instruct', {});
      expect(prepared.parser().push('\n Yes.')).toEqual([{ type: 'content', text: '\n Yes.' }]);
    });

    it('an effort level is passed to templates that support it', async () => {
      expect((await ending('openai-gpt-oss-120b', { thinking: 'high' })).text).toContain('Reasoning: high');
      expect((await ending('openai-gpt-oss-120b', { thinking: false })).text).toContain('Reasoning: low');
      expect((await ending('qwen38_chat_template', { thinking: 'high' })).text).toContain('xhigh');
    });

    it('of past answers is passed to templates that render it, also if a client sends it inside the text', async () => {
      const asking = (content: string, reasoning?: string): ChatTurn[] => [
        { role: 'user', content: 'Time?' },
        {
          role: 'assistant',
          content,
          ...(reasoning ? { reasoning } : {}),
          toolCalls: [{ id: 'a', name: 'add_numbers', arguments: {} }],
        },
        { role: 'tool', content: '12', callId: 'a' },
      ];
      for (const name of ['Qwen3.5-4B', 'GLM-4.6', 'openai-gpt-oss-120b']) {
        const { text } = await ending(name, { messages: asking('', 'I must look.'), tools: [add] });
        expect(text, name).toContain('I must look.');
      }
      const { text } = await ending('Qwen3.5-4B', {
        messages: asking('<think>\nI must look.\n</think>\n\nSo.'),
        tools: [add],
      });
      expect(text).toContain('<think>\nI must look.\n</think>\n\nSo.');
    });

    it("the template's own variables win", async () => {
      const { text } = await ending('Qwen3.5-4B', { thinking: true, variables: { enable_thinking: false } });
      expect(text.endsWith('</think>\n\n')).toBe(true);
    });
  });
});
