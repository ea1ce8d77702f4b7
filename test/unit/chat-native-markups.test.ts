/** Families whose templates are not in the shared data, each with a small template that renders calls in its format. */
import { describe, expect, it } from 'vitest';
import { type ChatTurn, prepareChat } from '../../src/chat/index.ts';
import { getTemplateCapabilities } from '../../src/chat/template/capabilities.ts';
import { createChatTemplate } from '../../src/engine/tokenizer/index.ts';
import type { ChatTemplate } from '../../src/engine/tokenizer/types.ts';
import { letters, parse, reading, tools, weather } from '../support/chat-answers.ts';
import { model, tokenizer } from '../support/real-templates.ts';

const loop = (calls: string) => `{%- for message in messages -%}
{%- if message['role'] == 'tool' -%}{{ '<|result|>' + message['content'] }}
{%- elif message['role'] == 'assistant' and message['tool_calls'] -%}{{ '<|assistant|>' + (message['content'] or '') }}${calls}
{%- else -%}{{ '<|' + message['role'] + '|>' + message['content'] }}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|assistant|>' }}{%- endif -%}`;
const listed = (value: string) => `{{- '\n<tool_calls>[' -}}
{%- for call in message['tool_calls'] -%}
{{- '{"name": "' + call['function']['name'] + '", "arguments": ' + ${value} + ', "id": "' + call['id'] + '"}' -}}
{%- if not loop.last -%}{{- ', ' -}}{%- endif -%}
{%- endfor -%}
{{- ']</tool_calls>' -}}`;

const sources: Readonly<Record<string, readonly [style: string, source: string]>> = {
  'Apriel 1.5': [
    'apriel',
    `{%- if tools -%}<available_tools>{% for tool in tools %}{{ tool|string }}{% endfor %}</available_tools>{%- endif -%}${loop(listed("call['function']['arguments']|string"))}`,
  ],
  'Apriel 1.6': [
    'apriel',
    `{%- if tools -%}<available_tools>{{ tools|tojson }}</available_tools>{%- endif -%}${loop(listed("call['function']['arguments']|tojson"))}`,
  ],
  'Command R+': [
    'command-action',
    `{%- if tools -%}{{ tools|tojson }}{%- endif -%}${loop(`{{- '\nAction:\n\`\`\`json\n[\n' -}}
{%- for tool_call in message.tool_calls -%}
{%- if tool_call.function is defined -%}{%- set tool_call = tool_call.function -%}{%- endif -%}
{{- '{\n'|indent(4, first=true) -}}
{{- '"tool_name": "'|indent(8, first=true) + tool_call.name + '",\n' -}}
{{- '"parameters": '|indent(8, first=true) -}}
{%- if tool_call.arguments|length > 0 -%}{{- tool_call.arguments|tojson(indent=4)|indent(8) -}}{{- '\n' -}}{%- else -%}{{- '{}\n' -}}{%- endif -%}
{{- '}'|indent(4, first=true) -}}
{%- if not loop.last -%}{{- ',\n' -}}{%- endif -%}
{%- endfor -%}
{{- '\n]\`\`\`\n' -}}`)}`,
  ],
  'DeepSeek V3.2': [
    'deepseek-functions',
    `{%- set dsml = '｜DSML｜' -%}{%- if tools -%}{{ tools|tojson }}{%- endif -%}${loop(`{{ '\n\n' }}<{{ dsml }}function_calls>
{%- for call in message.tool_calls -%}
{{ '\n' }}<{{ dsml }}invoke name="{{ call.function.name }}">{{ '\n' }}
{%- for key, value in call.function.arguments.items() -%}
{%- if not loop.first -%}{{ '\n' }}{%- endif -%}
<{{ dsml }}parameter name="{{ key }}" string="{{ 'true' if value is string else 'false' }}">{{ value if value is string else (value|tojson) }}</{{ dsml }}parameter>
{%- endfor -%}{{ '\n' }}</{{ dsml }}invoke>
{%- endfor -%}{{ '\n' }}</{{ dsml }}function_calls>`)}`,
  ],
};

const templateOf = (source: string) =>
  createChatTemplate(new Map([['tokenizer.chat_template', source]]), tokenizer) as ChatTemplate;
const calls = [
  { id: 'call_1', name: 'get_weather', arguments: { city: 'Paris "é" {東京}', days: 3 } },
  { id: 'call_2', name: 'now', arguments: {} },
];
const conversation: readonly ChatTurn[] = [
  { role: 'user', content: 'QUESTION' },
  { role: 'assistant', content: 'SAYING', toolCalls: calls },
  { role: 'tool', content: 'FIRST RESULT', callId: 'call_1' },
  { role: 'tool', content: 'SECOND RESULT', callId: 'call_2' },
];

describe.each(Object.entries(sources))('%s', (_, [style, source]) => {
  const chatTemplate = templateOf(source);

  it('is detected by how its template renders calls', () => {
    const facts = getTemplateCapabilities(chatTemplate);
    expect([facts.toolCallFormat.name, facts.toolVariable]).toEqual([style, 'tools']);
    expect(facts.callMessageShape).toMatchObject({ isOneMessage: true, content: 'same' });
  });

  it('parses what its template renders, in any chunks', async () => {
    const chatInput = { messages: conversation, tools: [...tools.values()] };
    const { text } = await prepareChat({ tokenizer, chatTemplate, model }, chatInput);
    const from = text.indexOf('SAYING');
    const answer = text.slice(from, text.indexOf('<|result|>', from));
    const whole = parse([answer], reading(style));
    expect(whole.content).toBe('SAYING');
    expect(
      whole.calls.map(({ name, arguments: given }) => ({ name, arguments: JSON.parse(given) as unknown })),
    ).toEqual(calls.map(({ name, arguments: given }) => ({ name, arguments: given })));
    expect(parse(letters(answer), reading(style))).toEqual(whole);
    for (let at = 1; at < answer.length; at++)
      expect(parse([answer.slice(0, at), answer.slice(at)], reading(style)), answer.slice(0, at)).toEqual(
        whole,
      );
  });
});

const city = (value: string) => `{"city": "${value}"}`;
const invoke = (inner: string) => `<｜DSML｜invoke name="get_weather">\n${inner}\n</｜DSML｜invoke>`;
const parameter = '<｜DSML｜parameter name="city" string="true">Bern</｜DSML｜parameter>';

it.each([
  ['apriel', `<tool_calls>\n[\n  {"name": "get_weather", "arguments": ${city('Bern')}}\n]\n</tool_calls>`],
  ['apriel', `<tool_calls>{"name": "get_weather", "arguments": ${city('Bern')}}</tool_calls>`],
  ['apriel', `<tool_calls>[{"arguments": ${city('Bern')}, "name": "get_weather"}]`],
  ...['Action: ', 'Action:', 'Action:\n', 'Action:\n\n'].flatMap((begin) =>
    [']```', ']\n```', ']'].map((end) => [
      'command-action',
      `${begin}\`\`\`json\n[\n    {\n        "tool_name": "get_weather",\n        "parameters": ${city('Bern')}\n    }\n${end}`,
    ]),
  ),
  ['deepseek-functions', `<｜DSML｜function_calls>\n${invoke(parameter)}\n</｜DSML｜function_calls>`],
  ['deepseek-functions', `<｜DSML｜function_calls>\n${invoke(city('Bern'))}\n</｜DSML｜function_calls>`],
  ['deepseek-functions', `<｜DSML｜tool_calls>\n${invoke(parameter)}\n</｜DSML｜tool_calls>`],
  ['deepseek-functions', `<｜DSML｜function_calls>\n${invoke(parameter)}`],
  ['deepseek-markup', `<｜DSML｜function_calls>\n${invoke(parameter)}\n</｜DSML｜function_calls>`],
])('%s: %j is a call', (style, answer) => {
  const whole = parse([answer], reading(style));
  expect(whole).toMatchObject({ content: '', calls: [{ name: weather.name }] });
  expect(JSON.parse(whole.calls[0]?.arguments ?? '')).toEqual({ city: 'Bern' });
  for (let at = 1; at < answer.length; at++)
    expect(parse([answer.slice(0, at), answer.slice(at)], reading(style))).toEqual(whole);
});

it.each([
  ['apriel', 'Write <tool_calls>[{"name": ...}]</tool_calls> to call.'],
  [
    'command-action',
    'Action: ```json\n[\n    {\n        "tool_name": "directly_answer",\n        "parameters": {}\n    }\n]```',
  ],
  ['command-action', 'Action: I go.\n```json\n{"a": 1}\n```'],
  ['deepseek-functions', 'It says <｜DSML｜function_calls>.'],
])('%s: %j is text', (style, answer) => {
  expect(parse(letters(answer), reading(style))).toEqual({ content: answer, reasoning: '', calls: [] });
});
