import { Ajv } from 'ajv';
import { beforeAll, describe, expect, it } from 'vitest';
import { type AnswerConstraints, buildAnswerGrammar } from '../../src/chat/answer-grammar.ts';
import { toGrammarTools } from '../../src/chat/grammar-tools.ts';
import { toolCallFormats } from '../../src/chat/tool-call-formats/index.ts';
import { detectReasoning } from '../../src/chat/template/reasoning.ts';
import type { ToolDefinition } from '../../src/chat/types.ts';
import { type ByteGrammar, ByteGrammars, seeded } from '../support/grammar-walks.ts';
import { letters, parse, reading } from '../support/chat-answers.ts';

const tools: readonly ToolDefinition[] = [
  {
    name: 'get_weather',
    parameters: {
      type: 'object',
      properties: {
        city: { type: 'string', enum: ['Bern', 'Rome'] },
        days: { type: 'integer', minimum: 0, maximum: 9 },
        detail: { type: 'boolean' },
      },
      required: ['city', 'days'],
      additionalProperties: false,
    },
  },
  { name: 'now' },
];
const callable = new Map(tools.map((tool) => [tool.name, tool]));
const valid = new Ajv().compile(tools[0]?.parameters ?? {});
const think = detectReasoning('<think>');

let grammars: ByteGrammars;
beforeAll(async () => {
  grammars = await ByteGrammars.open();
});

const styleOf = (name: string) => toolCallFormats.find((style) => style.name === name);
const bounds = (style: string, more: Partial<AnswerConstraints> = {}): AnswerConstraints => ({
  toolCallFormat: styleOf(style),
  tools: toGrammarTools(tools, 'auto'),
  requiresCall: false,
  allowsParallelCalls: true,
  output: undefined,
  forbiddenTriggers: [],
  reasoning: undefined,
  reasoningState: 'after',
  ...more,
});
async function compiled(how: AnswerConstraints): Promise<ByteGrammar> {
  const source = buildAnswerGrammar(how);
  if (!source) throw new Error('nothing is bound');
  return await grammars.compile(source);
}

describe.each(toolCallFormats.map(({ name }) => name))('%s', (style) => {
  it('a required call is parsed as calls with valid arguments, whatever is sampled', async () => {
    const grammar = await compiled(bounds(style, { requiresCall: true }));
    let walks = 0;
    for (let seed = 0; seed < 25; seed++) {
      const answer = await grammar.walk(seeded(seed), 1500);
      if (answer === undefined) continue;
      walks++;
      const { calls, content } = parse(letters(answer), reading(style, { tools: callable }));
      expect(calls.length, answer).toBeGreaterThan(0);
      expect(content, answer).toBe('');
      for (const call of calls) {
        const value = JSON.parse(call.arguments) as unknown;
        if (call.name === 'get_weather') expect(valid(value), `${answer}: ${call.arguments}`).toBe(true);
        else expect(value).toEqual({});
      }
    }
    expect(walks).toBeGreaterThan(10);
    grammar.dispose();
  });

  it('allows only one call without parallel calls', async () => {
    const how = {
      requiresCall: true,
      allowsParallelCalls: false,
      tools: toGrammarTools(tools, { name: 'now' }),
    };
    const grammar = await compiled(bounds(style, how));
    for (let seed = 0; seed < 5; seed++) {
      const answer = await grammar.walk(seeded(seed), 1500);
      if (answer === undefined) continue;
      const { calls } = parse([answer], reading(style, { tools: callable }));
      expect(
        calls.map(({ name }) => name),
        answer,
      ).toEqual(['now']);
    }
    expect(await grammar.reads('Hello')).toBe('no');
    grammar.dispose();
  });

  it('text is unconstrained until a call starts', async () => {
    const source = buildAnswerGrammar(bounds(style));
    if (styleOf(style)?.grammar?.triggers.length === 0) {
      expect(source).toBeUndefined();
      return;
    }
    const grammar = await compiled(bounds(style));
    const [trigger = ''] = styleOf(style)?.grammar?.triggers ?? [];
    expect(await grammar.reads('Hello { [ <x> "')).toBe('whole');
    expect(await grammar.reads(`Hello ${trigger}`)).toBe('part');
    expect(await grammar.reads(`Hello ${trigger}get_money`)).toBe('no');
    grammar.dispose();
  });

  it('no call can start when calls are forbidden', async () => {
    const forbidden = styleOf(style)?.grammar?.triggers ?? [];
    if (forbidden.length === 0) return;
    const grammar = await compiled(bounds(style, { tools: [], forbiddenTriggers: forbidden }));
    expect(await grammar.reads('Hello { [ <x> "')).toBe('whole');
    for (const trigger of forbidden) expect(await grammar.reads(`Hello ${trigger}`)).toBe('no');
    grammar.dispose();
  });

  it('with an output format: a call or the output', async () => {
    const output = { kind: 'choice', texts: ['yes', 'no'] } as const;
    const grammar = await compiled(bounds(style, { output }));
    const begin = styleOf(style)?.answerPrefix ?? '';
    expect(await grammar.reads(`${begin}yes`)).toBe('whole');
    expect(await grammar.reads(`${begin}maybe`)).toBe('no');
    grammar.dispose();
  });
});

describe('reasoning', () => {
  const output = { kind: 'choice', texts: ['yes'] } as const;
  const bare = { tools: [], toolCallFormat: undefined, output, reasoning: think };

  it('is unconstrained, and the text after it is constrained', async () => {
    const within = await compiled(bounds('hermes', { ...bare, reasoningState: 'within' }));
    expect(await within.reads('well... <tool_call> </think>\n\nyes')).toBe('whole');
    expect(await within.reads('well')).toBe('part');
    expect(await within.reads('well</think>no')).toBe('no');
    const before = await compiled(bounds('hermes', { ...bare, reasoningState: 'before' }));
    expect(await before.reads('<think>\nwell</think>\nyes')).toBe('whole');
    expect(await before.reads('yes')).toBe('whole');
    expect(await before.reads('no')).toBe('no');
  });

  it('without reasoning, only the output is allowed', () => {
    expect(buildAnswerGrammar(bounds('hermes', { ...bare, reasoningState: 'after' }))).toBe(output);
  });

  it('a call may be required after it', async () => {
    const grammar = await compiled(
      bounds('hermes', { requiresCall: true, reasoning: think, reasoningState: 'within' }),
    );
    const call = '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>';
    expect(await grammar.reads(`I must look.</think>\n\n${call}`)).toBe('whole');
    expect(await grammar.reads('I must look.</think>\n\nNo.')).toBe('no');
    grammar.dispose();
  });

  it("gpt-oss's output is on its channel", async () => {
    const how = {
      toolCallFormat: styleOf('harmony'),
      tools: [],
      output,
      reasoning: detectReasoning('<|channel|>analysis'),
    };
    const grammar = await compiled(bounds('harmony', { ...how, reasoningState: 'before' }));
    const thought = '<|channel|>analysis<|message|>so<|end|><|start|>assistant';
    expect(await grammar.reads(`${thought}<|channel|>final<|message|>yes`)).toBe('whole');
    expect(await grammar.reads('<|channel|>final<|message|>yes')).toBe('whole');
    expect(await grammar.reads('yes')).toBe('no');
    grammar.dispose();
  });
});

describe('schemas that a grammar cannot enforce', () => {
  const parameters = {
    type: 'object',
    properties: { a: { type: 'array', uniqueItems: true } },
  };
  const odd: ToolDefinition = { name: 'odd', parameters };

  it('allow any object as arguments, unless the tool is strict', async () => {
    const strict = toGrammarTools([{ ...odd, strict: true }], 'auto');
    for (const { name } of toolCallFormats) {
      const grammar = await compiled(
        bounds(name, { tools: toGrammarTools([odd], 'auto'), requiresCall: true }),
      );
      grammar.dispose();
    }
    const free = await compiled(
      bounds('qwen-coder', { tools: toGrammarTools([odd], 'auto'), requiresCall: true }),
    );
    const call =
      '<tool_call>\n<function=odd>\n<parameter=a>\n[1, 1]\n</parameter>\n</function>\n</tool_call>';
    expect(await free.reads(call)).toBe('whole');
    await expect(compiled(bounds('hermes', { tools: strict, requiresCall: true }))).rejects.toMatchObject({
      code: 'unsupported_schema',
    });
  });

  it('unquoted strings are constrained by enum, const and pattern; other keywords are rejected for strict tools', async () => {
    const tool = (city: object, strict = false): ToolDefinition => ({
      name: 'f',
      parameters: { type: 'object', properties: { city }, required: ['city'] },
      strict,
    });
    const written = (value: string) =>
      `<tool_call>\n<function=f>\n<parameter=city>\n${value}\n</parameter>\n</function>\n</tool_call>`;
    const grammarOf = (one: ToolDefinition) =>
      compiled(bounds('qwen-coder', { tools: toGrammarTools([one], 'auto'), requiresCall: true }));
    const patterned = await grammarOf(tool({ type: 'string', pattern: '^[A-Z]+$' }));
    expect(await patterned.reads(written('BERN'))).toBe('whole');
    expect(await patterned.reads(written('Bern'))).toBe('no');
    const free = await grammarOf(tool({ type: 'string', minLength: 3 }));
    expect(await free.reads(written('any "text"\nat all'))).toBe('whole');
    await expect(grammarOf(tool({ type: 'string', minLength: 3 }, true))).rejects.toMatchObject({
      code: 'unsupported_schema',
      path: '/properties/city/minLength',
    });
  });
});

it('a tool with an empty properties object takes no arguments, unless its schema has other keywords', () => {
  const bound = (parameters: Record<string, unknown>) =>
    toGrammarTools([{ name: 'now', parameters }], 'auto')[0]?.schema;
  const nothing = { type: 'object', properties: {}, additionalProperties: false };
  for (const parameters of [
    {},
    { type: 'object' },
    { type: 'object', properties: {} },
    { type: 'object', properties: {}, required: [], description: 'x' },
  ]) {
    expect(bound(parameters)).toEqual(nothing);
  }
  for (const parameters of [
    { type: 'object', properties: {}, additionalProperties: true },
    { type: 'object', additionalProperties: { type: 'string' } },
    { type: 'object', properties: { a: {} } },
    { $ref: '#/$defs/a', $defs: { a: { type: 'object' } } },
  ]) {
    expect(bound(parameters)).toBe(parameters);
  }
});
