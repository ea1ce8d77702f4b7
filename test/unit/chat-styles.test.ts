import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { detectReasoning } from '../../src/chat/template/reasoning.ts';
import { toolCallFormats } from '../../src/chat/tool-call-formats/index.ts';
import { createAnswerParser } from '../../src/chat/parser/answer-parser.ts';
import { letters, parse, reading } from '../support/chat-answers.ts';

/** In each format: text, a call with quotes and non-Latin characters, and a second call without arguments. */
const paris = { city: 'Paris "é" 東京', days: 3 };
const json = JSON.stringify(paris);
const answers: Readonly<Record<string, string>> = {
  hermes: `I look.\n<tool_call>\n{"name": "get_weather", "arguments": ${json}}\n</tool_call>\n<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>`,
  'mistral-list': `I look.[TOOL_CALLS][{"name": "get_weather", "arguments": ${json}}, {"name": "now", "arguments": {}}]`,
  'mistral-named': `I look.[TOOL_CALLS]get_weather[ARGS]${json}[TOOL_CALLS]now[ARGS]{}`,
  phi: `I look.<|tool_call|>[{"name": "get_weather", "arguments": ${json}}, {"name": "now", "arguments": {}}]<|/tool_call|>`,
  granite: `I look.<|tool_call|>[{"name": "get_weather", "arguments": ${json}}, {"name": "now", "arguments": {}}]`,
  functools: `I look. functools[{"name": "get_weather", "arguments": ${json}}, {"name": "now", "arguments": {}}]`,
  gigachat: `I look.<|function_call|>{"name": "get_weather", "arguments": ${json}}<|message_sep|>\n\nfunction call<|role_sep|>\n{"name": "now", "arguments": {}}`,
  command: `I look.<|START_ACTION|>[\n    {"tool_call_id": "0", "tool_name": "get_weather", "parameters": ${json}},\n    {"tool_call_id": "1", "tool_name": "now", "parameters": {}}\n]<|END_ACTION|>`,
  'command-action': `I look.\nAction:\n\`\`\`json\n[\n    {\n        "tool_name": "get_weather",\n        "parameters": ${json}\n    },\n    {\n        "tool_name": "now",\n        "parameters": {}\n    }\n]\`\`\``,
  apriel: `I look.\n<tool_calls>[{"name": "get_weather", "arguments": ${json}, "id": "call_1"}, {"name": "now", "arguments": {}, "id": "call_2"}]</tool_calls>`,
  apertus: `I look.<|tools_prefix|>[{"get_weather": ${json}}, {"now": {}}]<|tools_suffix|>`,
  llama: `I look. <|python_tag|>{"name": "get_weather", "parameters": ${json}}; {"name": "now", "parameters": {}}`,
  'function-tag': `I look.<function=get_weather>${json}</function><function=now>{}</function>`,
  'deepseek-fenced': `I look.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n\`\`\`json\n${json}\n\`\`\`<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>now\n\`\`\`json\n{}\n\`\`\`<｜tool▁call▁end｜><｜tool▁calls▁end｜>`,
  'deepseek-named': `I look.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>${json}<｜tool▁call▁end｜><｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>`,
  kimi: `I look.<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>${json}<|tool_call_end|><|tool_call_begin|>functions.now:1<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>`,
  'qwen-coder': `I look.\n<tool_call>\n<function=get_weather>\n<parameter=city>\n${paris.city}\n</parameter>\n<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=now>\n</function>\n</tool_call>`,
  seed: `I look.\n<seed:tool_call>\n<function=get_weather>\n<parameter=city>${paris.city}</parameter>\n<parameter=days>3</parameter>\n</function>\n</seed:tool_call>\n<seed:tool_call>\n<function=now>\n</function>\n</seed:tool_call>`,
  glm: `I look.\n<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>${paris.city}</arg_value>\n<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n</tool_call>\n<tool_call>now\n</tool_call>`,
  'deepseek-markup': `I look.\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name="get_weather">\n<｜DSML｜parameter name="city" string="true">${paris.city}</｜DSML｜parameter>\n<｜DSML｜parameter name="days" string="false">3</｜DSML｜parameter>\n</｜DSML｜invoke>\n<｜DSML｜invoke name="now">\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>`,
  'deepseek-functions': `I look.\n\n<｜DSML｜function_calls>\n<｜DSML｜invoke name="get_weather">\n<｜DSML｜parameter name="city" string="true">${paris.city}</｜DSML｜parameter>\n<｜DSML｜parameter name="days" string="false">3</｜DSML｜parameter>\n</｜DSML｜invoke>\n<｜DSML｜invoke name="now">\n\n</｜DSML｜invoke>\n</｜DSML｜function_calls>`,
  gemma: `I look.<|tool_call>call:get_weather{city:<|"|>${paris.city}<|"|>,days:3}<tool_call|><|tool_call>call:now{}<tool_call|>`,
  lfm: `I look.<|tool_call_start|>[get_weather(city='Paris "é" 東京', days=3), now()]<|tool_call_end|>`,
  harmony: `<|channel|>commentary<|message|>I look.<|end|><|start|>assistant to=functions.get_weather<|channel|>commentary json<|message|>${json}<|call|><|start|>assistant<|channel|>commentary to=functions.now <|constrain|>json<|message|>{}`,
  functionary: `all\nI look.>>>get_weather\n${json}>>>now\n{}`,
};

describe('answers with calls', () => {
  it('each format has an example', () => {
    expect(Object.keys(answers).sort()).toEqual(toolCallFormats.map(({ name }) => name).sort());
  });

  it.each(Object.entries(answers))('%s: text and two calls', (style, answer) => {
    const parsed = parse([answer], reading(style));
    expect(parsed.content).toBe('I look.');
    expect(parsed.calls.map(({ name }) => name)).toEqual(['get_weather', 'now']);
    expect(parsed.calls.map((call) => JSON.parse(call.arguments) as unknown)).toEqual([paris, {}]);
    expect(new Set(parsed.calls.map(({ id }) => id)).size).toBe(2);
  });

  it.each(Object.entries(answers))('%s: any division into chunks gives the same result', (style, answer) => {
    const whole = parse([answer], reading(style));
    expect(parse(letters(answer), reading(style))).toEqual(whole);
    fc.assert(
      fc.property(fc.array(fc.nat({ max: answer.length }), { maxLength: 6 }), (cuts) => {
        const at = [0, ...cuts.sort((a, b) => a - b), answer.length];
        const pieces = at.slice(1).map((end, index) => answer.slice(at[index], end));
        expect(parse(pieces, reading(style))).toEqual(whole);
      }),
      { numRuns: 50 },
    );
  });

  it.each(Object.entries(answers))(
    '%s: cut by the limit anywhere, it throws nothing and invents nothing',
    (style, answer) => {
      for (let end = 0; end <= answer.length; end++) {
        const { content, calls } = parse([answer.slice(0, end)], reading(style));
        expect(content.length).toBeLessThanOrEqual(answer.length);
        for (const call of calls) expect(['get_weather', 'now']).toContain(call.name);
        if (calls.length === 0)
          expect(content.includes('I look.') || end < answer.indexOf('I look.') + 7).toBe(true);
      }
    },
  );

  it.each(Object.entries(answers))('%s: only the first call without parallel calls', (style, answer) => {
    const { calls } = parse(letters(answer), reading(style, { isSingleCall: true }));
    expect(calls.map(({ name }) => name)).toEqual(['get_weather']);
    expect(JSON.parse(calls[0]?.arguments ?? '')).toEqual(paris);
  });

  it.each(Object.entries(answers))('%s: without tools it is text', (style, answer) => {
    const { content, calls } = parse(letters(answer), reading(style, { tools: new Map() }));
    expect(calls).toEqual([]);
    if (style !== 'harmony' && style !== 'functionary') expect(content).toBe(answer);
    else expect(content).toContain(paris.city.slice(0, 5));
  });

  it.each(Object.entries(answers))('%s: a call of an unknown tool is content', (style, answer) => {
    const unknown = answer.replaceAll('get_weather', 'get_money').replaceAll('now', 'later');
    const { content, calls } = parse(letters(unknown), reading(style));
    expect(calls).toEqual([]);
    expect(content).toContain('get_money');
    expect(content).toContain('Paris');
  });

  it.each(toolCallFormats.map(({ name }) => name))(
    '%s: random text never throws and is never lost',
    (style) => {
      const found = toolCallFormats.find(({ name }) => name === style);
      const markers = [
        ...(found?.triggers ?? []),
        ...(found?.markers ?? []),
        ...(found?.startTriggers ?? []),
      ];
      const piece = fc.oneof(
        fc.constantFrom(
          ...markers,
          '{',
          '}',
          '[',
          ']',
          '"',
          ',',
          ':',
          '\n',
          ' ',
          'name',
          'x',
          '<',
          '"name": "get_money"',
        ),
        fc.string({ maxLength: 4, unit: 'grapheme' }),
      );
      fc.assert(
        fc.property(fc.array(piece, { maxLength: 12 }), (pieces) => {
          const whole = pieces.join('');
          const parsed = parse(pieces, reading(style));
          expect(parse([whole], reading(style))).toEqual(parsed);
          // It has no tool name, so nothing is a call. Messages on channels only lose their delimiters.
          expect(parsed.calls).toEqual([]);
          if (style === 'harmony' || style === 'functionary') return;
          expect(parsed.content).toBe(whole);
        }),
        { numRuns: 200 },
      );
    },
  );
});

describe('arguments', () => {
  const call = (text: string) => `<tool_call>\n${text}\n</tool_call>`;
  const one = (text: string) => parse(letters(call(text)), reading('hermes'));

  it('stream as soon as the name is known', () => {
    const parser = createAnswerParser(reading('hermes'));
    expect(parser.push('<tool_call>\n{"name": "get_weather", "arguments": {"city": "Par')).toEqual([
      { type: 'tool_call', index: 0, id: 'id-0', name: 'get_weather' },
      { type: 'tool_arguments', index: 0, text: '{"city": "Par' },
    ]);
    expect(parser.push('is"}}')).toEqual([{ type: 'tool_arguments', index: 0, text: 'is"}' }]);
    expect(parser.push('\n</tool_call>')).toEqual([]);
    expect(parser.end()).toEqual([]);
  });

  it('of tagged parameters stream as escaped JSON strings', () => {
    const parser = createAnswerParser(reading('qwen-coder'));
    const deltas = parser.push('<tool_call>\n<function=get_weather>\n<parameter=city>\nSay "');
    expect(deltas.at(-1)).toEqual({ type: 'tool_arguments', index: 0, text: '{"city": "Say \\"' });
  });

  it('may come before the name, as a string, as null or not at all', () => {
    const expected = { name: 'get_weather', arguments: '{"city": "Bern"}' };
    expect(one('{"arguments": {"city": "Bern"}, "name": "get_weather"}').calls).toMatchObject([expected]);
    expect(one('{"name": "get_weather", "arguments": "{\\"city\\": \\"Bern\\"}"}').calls).toMatchObject([
      expected,
    ]);
    expect(one('{"name": "now", "arguments": null}').calls).toMatchObject([{ name: 'now', arguments: '{}' }]);
    expect(one('{"name": "now"}').calls).toMatchObject([{ name: 'now', arguments: '{}' }]);
  });

  it('have raw line breaks in strings escaped', () => {
    const { calls } = one('{"name": "get_weather", "arguments": {"city": "a\nb"}}');
    expect(JSON.parse(calls[0]?.arguments ?? '')).toEqual({ city: 'a\nb' });
  });

  it('of unquoted text are typed by the schema', () => {
    const parameters = ['days', 'units', 'where', 'city', 'other']
      .map((name) => `<parameter=${name}>\n{${name}}\n</parameter>\n`)
      .join('');
    const written = (values: Record<string, string>) =>
      call(
        `<function=get_weather>\n${Object.entries(values).reduce((text, [name, value]) => text.replace(`{${name}}`, value), parameters)}</function>`,
      );
    const values = { days: '4', units: 'null', where: '{"x": 1}', city: '12', other: 'true' };
    const { calls } = parse([written(values)], reading('qwen-coder'));
    expect(JSON.parse(calls[0]?.arguments ?? '')).toEqual({
      days: 4,
      units: null,
      where: { x: 1 },
      city: '12',
      other: true,
    });
    const python = { days: '4', units: 'None', where: '{}', city: 'None', other: 'False' };
    expect(JSON.parse(parse([written(python)], reading('qwen-coder')).calls[0]?.arguments ?? '')).toEqual({
      days: 4,
      units: null,
      where: {},
      city: 'None',
      other: false,
    });
    const odd = { days: 'many', units: 'metric', where: 'there', city: '"quoted"', other: 'plain' };
    expect(JSON.parse(parse([written(odd)], reading('qwen-coder')).calls[0]?.arguments ?? '')).toEqual(odd);
  });

  it("in Gemma's syntax may have Python literals and keys of several words", () => {
    const text = '<|"|>Bern<|"|>';
    const written = `<|tool_call>call:get_weather{city:${text},where:{a key:None, on : True},days:[1,{x:${text}}]}<tool_call|>`;
    const { calls, content } = parse(letters(written), reading('gemma'));
    expect(JSON.parse(calls[0]?.arguments ?? '')).toEqual({
      city: 'Bern',
      where: { 'a key': null, on: true },
      days: [1, { x: 'Bern' }],
    });
    expect(content).toBe('');
  });

  it('a parameter written twice counts once', () => {
    const twice = '<parameter=city>\nBern\n</parameter>\n'.repeat(2);
    const { calls } = parse([call(`<function=get_weather>\n${twice}</function>`)], reading('qwen-coder'));
    expect(calls[0]?.arguments).toBe('{"city": "Bern"}');
  });

  it("keep the model's own ids", () => {
    const mistral = '[TOOL_CALLS][{"name": "now", "arguments": {}, "id": "a"}]';
    expect(parse(['[TOOL_CALLS]now[CALL_ID]abcdef123[ARGS]{}'], reading('mistral-named')).calls[0]?.id).toBe(
      'abcdef123',
    );
    expect(
      parse([mistral.replace('"name"', '"id": "abcdef123", "name"')], reading('mistral-list')).calls[0]?.id,
    ).toBe('abcdef123');
    expect(parse([answers['kimi'] ?? ''], reading('kimi')).calls[1]?.id).toBe('functions.now:1');
  });

  it('that break off end there, and the text after them is content', () => {
    const { calls, content } = one('{"name": "get_weather", "arguments": {"city" "Bern"}}');
    expect(calls).toMatchObject([{ arguments: '{"city" ' }]);
    expect(content).toContain('"Bern"}}');
  });

  it('a call inside an invalid call is parsed', () => {
    const { calls, content } = one('<tool_call>{"name": "now", "arguments": {}}');
    expect(calls).toMatchObject([{ name: 'now' }]);
    expect(content).toBe('<tool_call>');
  });
});

describe("Llama's bare objects", () => {
  it('are calls only at the start, and only of known tools', () => {
    const text = '{"name": "now", "parameters": {}}';
    expect(parse(letters(text), reading('llama')).calls).toMatchObject([{ name: 'now' }]);
    for (const other of [
      `So: ${text}`,
      '{"name": "Ann", "age": 3}',
      '{"title": "x"}',
      '{"name": "now", "age": 3}',
    ]) {
      expect(parse(letters(other), reading('llama'))).toEqual({ content: other, reasoning: '', calls: [] });
    }
  });

  it('an object that is not a call streams as soon as that is certain', () => {
    const parser = createAnswerParser(reading('llama'));
    expect(parser.push('{"ti')).toEqual([]);
    expect(parser.push('tle": "A long')).toEqual([{ type: 'content', text: '{"title": "A long' }]);
  });
});

describe('reasoning', () => {
  const marks = (source: string) => {
    const found = detectReasoning(source);
    if (!found) throw new Error(`no marks for ${source}`);
    return found;
  };

  it('is separated when the answer starts with it, or the prompt opened it', () => {
    const reasoning = marks('<think>');
    const expected = { reasoning: 'so so', content: 'Yes.', calls: [] };
    expect(parse(letters('<think>\nso so\n</think>\n\nYes.'), reading(undefined, { reasoning }))).toEqual(
      expected,
    );
    expect(
      parse(letters('so so\n</think>\n\nYes.'), reading(undefined, { reasoning, startState: 'reasoning' })),
    ).toEqual(expected);
    expect(
      parse(letters('<think>so so</think>Yes.'), reading(undefined, { reasoning, startState: 'reasoning' })),
    ).toEqual(expected);
  });

  it('that the prompt closed leaves no white space before the answer', () => {
    const behind = reading(undefined, { reasoning: marks('<think>'), startState: 'behind reasoning' });
    expect(parse(letters('\n\n  Yes.\n'), behind).content).toBe('Yes.\n');
  });

  it('later delimiters are content, and answers without them too', () => {
    const reasoning = marks('<think>');
    for (const text of ['Yes. <think>no</think>', '  Yes.', ' <thin']) {
      expect(parse(letters(text), reading(undefined, { reasoning }))).toEqual({
        content: text,
        reasoning: '',
        calls: [],
      });
    }
  });

  it('that never ends is reasoning to the end', () => {
    expect(
      parse(
        letters('so\n so </thi'),
        reading(undefined, { reasoning: marks('<think>'), startState: 'reasoning' }),
      ),
    ).toMatchObject({
      reasoning: 'so\n so </thi',
      content: '',
    });
  });

  it.each([
    ['[THINK]', '[THINK]so[/THINK]Yes.'],
    ['<|START_THINKING|>', '<|START_THINKING|>so<|END_THINKING|>Yes.'],
    ['<|channel>thought', '<|channel>thought\nso<channel|>Yes.'],
    ['<seed:think>', '<seed:think>so</seed:think>Yes.'],
    ['<|inner_prefix|>', '<|inner_prefix|>so<|inner_suffix|>Yes.'],
    ['<think></think><response>', '<think>so</think>\n<response>Yes.</response>'],
  ])('%s', (source, answer) => {
    expect(parse(letters(answer), reading(undefined, { reasoning: marks(source) }))).toEqual({
      reasoning: 'so',
      content: 'Yes.',
      calls: [],
    });
  });

  it("gpt-oss's channels", () => {
    const answer = '<|channel|>analysis<|message|>so<|end|><|start|>assistant<|channel|>final<|message|>Yes.';
    expect(parse(letters(answer), reading('harmony'))).toEqual({
      reasoning: 'so',
      content: 'Yes.',
      calls: [],
    });
    expect(parse(['and more.'], reading('harmony', { startState: 'text' })).content).toBe('and more.');
  });

  it('calls come after it, not inside', () => {
    const reasoning = marks('<think>');
    const text =
      '<think>maybe <tool_call>{"name": "now"}</tool_call></think>\n\n<tool_call>{"name": "now"}</tool_call>';
    expect(parse(letters(text), reading('hermes', { reasoning }))).toMatchObject({
      reasoning: 'maybe <tool_call>{"name": "now"}</tool_call>',
      content: '',
      calls: [{ name: 'now' }],
    });
  });
});

it('a long answer is parsed in linear time', () => {
  const city = 'x'.repeat(200_000);
  const pieces =
    `<tool_call>{"name": "get_weather", "arguments": {"city": "${city}"}}</tool_call>`.match(/.{1,4}/g) ?? [];
  expect(parse(pieces, reading('hermes')).calls[0]?.arguments).toHaveLength(city.length + 12);
});
