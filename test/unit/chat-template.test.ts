import { readFileSync } from 'node:fs';
import { afterEach, expect, it, vi } from 'vitest';
import { ChatTemplateError, createChatTemplate, createTokenizer } from '../../src/engine/tokenizer/index.ts';
import type { ChatMessage, ChatTemplate } from '../../src/engine/tokenizer/types.ts';
import { describeShared, modelsPath } from '../support/shared.ts';
import { bpeMetadata, ggufMetadata, readJson } from '../support/tokenizer-files.ts';

const tokenizer = createTokenizer(
  bpeMetadata({
    pre: 'default',
    vocabulary: { a: 0 },
    merges: ['a a'],
    special: { '<s>': 1, '</s>': 2 },
    more: { bos_token_id: 1, eos_token_id: 2 },
  }),
);

function template(source: string, withTools?: string): ChatTemplate {
  const metadata = new Map([['tokenizer.chat_template', source]]);
  if (withTools) metadata.set('tokenizer.chat_template.tool_use', withTools);
  return createChatTemplate(metadata, tokenizer) as ChatTemplate;
}

const user = (content: unknown): ChatMessage[] => [{ role: 'user', content }];
const textParts = [
  { type: 'text', text: 'one' },
  { type: 'text', text: 'two' },
];

afterEach(() => {
  vi.useRealTimers();
});

it('the embedded model: conversations of golden.json become the prompts that the model was measured with', async () => {
  const metadata = await ggufMetadata(modelsPath('lathe-tiny-q8_0.gguf'));
  const chat = createChatTemplate(metadata, createTokenizer(metadata));
  const golden = readJson(modelsPath('golden.json')) as {
    prompts: { messages?: ChatMessage[]; tools?: unknown[]; prompt: string }[];
  };
  const conversations = golden.prompts.filter((entry) => entry.messages);
  expect(conversations.length).toBeGreaterThan(0);
  for (const { messages, tools, prompt } of conversations) {
    const input = { messages: messages as ChatMessage[], addGenerationPrompt: true };
    expect(chat?.render(tools ? { ...input, tools } : input)).toBe(prompt);
  }
});

it('a model without a template has none', () => {
  expect(createChatTemplate(new Map(), tokenizer)).toBeUndefined();
});

it('gives the template the variables that transformers gives', () => {
  const source =
    '{{ bos_token }}|{{ messages[0].content }}|{{ eos_token }}|{{ "none" if tools is none }}|{{ "go" if add_generation_prompt else "stop" }}|{{ mood }}';
  expect(template(source).render({ messages: user('Hi'), variables: { mood: 'calm' } })).toBe(
    '<s>|Hi|</s>|none|stop|calm',
  );
  expect(template(source).render({ messages: user('Hi'), tools: [{}], addGenerationPrompt: true })).toBe(
    '<s>|Hi|</s>||go|',
  );
});

it('has the date with strftime_now', () => {
  vi.useFakeTimers({ now: new Date(2025, 0, 9, 12) });
  const formatTime = (pattern: string) =>
    template(`{{ strftime_now('${pattern}') }}`).render({ messages: [] });
  expect(formatTime('%d %b %Y')).toBe('09 Jan 2025');
  expect(formatTime('%A %B %-d, %y, %I:%M:%S %p, day %j, %H %%')).toBe(
    'Thursday January 9, 25, 12:00:00 PM, day 009, 12 %',
  );
  expect(() => formatTime('%Q')).toThrow(/strftime_now does not support '%Q'/);
});

it("writes JSON as Python's transformers does", () => {
  const value = { b: "é<&>' 😀", a: [1, 2.5, true, null, {}], e: [] };
  const written = (how: string) =>
    template(`{{ value | tojson${how} }}`).render({ messages: [], variables: { value } });
  expect(written('')).toBe(`{"b": "é<&>' 😀", "a": [1, 2.5, true, null, {}], "e": []}`);
  expect(written("(separators=(',', ':'))")).toBe(`{"b":"é<&>' 😀","a":[1,2.5,true,null,{}],"e":[]}`);
  expect(written('(indent=2)')).toBe(
    `{\n  "b": "é<&>' 😀",\n  "a": [\n    1,\n    2.5,\n    true,\n    null,\n    {}\n  ],\n  "e": []\n}`,
  );
  expect(written('(ensure_ascii=True)')).toContain('"\\u00e9<&>\' \\ud83d\\ude00"');
});

it('supports loop controls and namespaces', () => {
  const source =
    '{% set kept = namespace(sum=0) %}{% for i in [1, 2, 3, 4] %}{% if i == 2 %}{% continue %}{% endif %}' +
    '{% if i == 4 %}{% break %}{% endif %}{% set kept.sum = kept.sum + i %}{{ loop.index }}{% endfor %}={{ kept.sum }}';
  expect(template(source).render({ messages: [] })).toBe('13=4');
});

it("rejects a conversation with the template's message", () => {
  const strict = template("{{ raise_exception('only one turn, please') }}");
  expect(() => strict.render({ messages: user('Hi') })).toThrow(
    new ChatTemplateError('chat template: only one turn, please'),
  );
});

it('reports unsupported features when it is used, not before', () => {
  const broken = template('{% frobnicate %}');
  expect(() => broken.render({ messages: user('Hi') })).toThrow(ChatTemplateError);
  const failing = template('{{ messages | nosuchfilter }}');
  expect(() => failing.render({ messages: user('Hi') })).toThrow(/^chat template: .*nosuchfilter/);
});

it('joins text parts with line breaks for a template that accepts only strings', () => {
  const plain = template('{% for m in messages %}[{{ m.content }}]{% endfor %}');
  expect(plain.render({ messages: user(textParts) })).toBe('[one\ntwo]');
  const trimming = template("{% for m in messages %}[{{ m['content'] | trim }}]{% endfor %}");
  expect(trimming.render({ messages: user(textParts) })).toBe('[one\ntwo]');
  expect(() => plain.render({ messages: user([{ type: 'image_url', image_url: { url: 'x' } }]) })).toThrow(
    /only text/,
  );
});

it('keeps parts for a template that reads them', () => {
  const reading = template(
    '{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}' +
      "{% for p in m.content %}<{{ p.text if p.type == 'text' else 'image' }}>{% endfor %}{% endif %}{% endfor %}",
  );
  expect(reading.render({ messages: user(textParts) })).toBe('<one><two>');
  expect(reading.render({ messages: user([{ type: 'image' }, ...textParts]) })).toBe('<image><one><two>');
  expect(reading.render({ messages: user('plain') })).toBe('plain');
});

it('uses the tool template for a conversation with tools', () => {
  const both = template('plain', 'tools: {{ tools | length }}');
  expect(both.render({ messages: user('Hi') })).toBe('plain');
  expect(both.render({ messages: user('Hi'), tools: [] })).toBe('plain');
  expect(both.render({ messages: user('Hi'), tools: [{}, {}] })).toBe('tools: 2');
});

interface Golden {
  cases: Record<
    string,
    { messages: ChatMessage[]; tools: unknown[] | null; add_generation_prompt: boolean; kwargs: object }
  >;
  templates: {
    template: string;
    dateDependent: boolean;
    cases: Record<string, { ok: string } | { error: string }>;
  }[];
}

/** Conversations that fail here, although the Python reference renders them. */
const unsupported: Readonly<Record<string, string>> = {
  'templates/ByteDance-Seed-OSS.jinja': 'numbers as keys of an object',
  'templates/meetkai-functionary-medium-v3.2.jinja tools': 'a tuple from items() taken apart',
};
/** Conversations that render differently from the reference. */
const different: Readonly<Record<string, string>> = {
  'templates/meetkai-functionary-medium-v3.1.jinja tools':
    "Python escapes what it adds to a text marked 'safe'",
  'templates/meetkai-functionary-medium-v3.1.jinja toolcall':
    "Python escapes what it adds to a text marked 'safe'",
  'templates/llama-cpp-deepseek-r1.jinja tools':
    'Python has no JSON for what `map` gives; ours writes the list',
  'templates/llama-cpp-deepseek-r1.jinja toolcall':
    'Python has no JSON for what `map` gives; ours writes the list',
  ...Object.fromEntries(
    ['user', 'multi', 'system', 'nogen', 'nothink'].map((title) => [
      `templates/NousResearch-Hermes-3-Llama-3.1-8B-tool_use.jinja ${title}`,
      'Python refuses to walk through no tools; ours gets an empty list',
    ]),
  ),
};

describeShared('chat templates of real models', ['data/chat/golden-chat.json'], (path) => {
  const golden = readJson(path) as Golden;

  it.each(golden.templates.map((entry) => [entry.template, entry] as const))('%s', (name, entry) => {
    vi.useFakeTimers({ now: goldenDay(golden) });
    const chat = template(readFileSync(path.replace('golden-chat.json', name), 'utf8'));
    for (const [title, expected] of Object.entries(entry.cases)) {
      const given = golden.cases[title] as Golden['cases'][string];
      const render = () =>
        chat.render({
          messages: given.messages,
          ...(given.tools ? { tools: given.tools } : {}),
          addGenerationPrompt: given.add_generation_prompt,
          variables: given.kwargs as Record<string, unknown>,
        });
      const label = `${name} ${title}`;
      if (different[label]) {
        expect('ok' in expected ? expected.ok : undefined, `${label}: agrees by now`).not.toBe(render());
      } else if ('error' in expected || unsupported[name] || unsupported[label]) {
        expect(render, label).toThrow(ChatTemplateError);
      } else {
        expect(render(), label).toBe(expected.ok);
      }
    }
  });
});

/** Noon of the day on which the reference rendered. */
function goldenDay(golden: Golden): Date {
  const day = /Current date: (\d+)-(\d+)-(\d+)/.exec(JSON.stringify(golden));
  if (!day) throw new Error('golden-chat.json names no day');
  return new Date(Number(day[1]), Number(day[2]) - 1, Number(day[3]), 12);
}
