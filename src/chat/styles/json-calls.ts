import { readArguments, readCallList, readCallObject, usualKeys } from '../parser/call-object.ts';
import { readWholeJson } from '../parser/json.ts';
import type { Sink } from '../parser/sink.ts';
import type { Reading, Source } from '../parser/source.ts';
import { argumentsOf, callObject, type ToolStyle, writeCallObject } from './style.ts';

/** Creates a reader of a start text, one call object or a list of them, and an optional end text. */
const between = (begins: readonly string[], ends: readonly string[], list: 'always' | 'maybe') =>
  function* read(source: Source, sink: Sink): Reading<boolean> {
    if (!(yield* source.accept(...begins))) return false;
    if (!(yield* readCallList(source, sink, { read: readCallObject, list }))) return false;
    yield* source.space();
    yield* source.accept(...ends);
    return true;
  };

/**
 * `<tool_call>{...}</tool_call>`: Hermes, Qwen 2.5 and 3, SmolLM, Bielik, Granite 4, and models whose template has no
 * tools.
 */
export const hermes: ToolStyle = {
  name: 'hermes',
  isTaught: ({ source, call }) =>
    /<tool_call>\s*\{\s*"name": ?"probe_tool"/.test(call) ||
    (call === '' && /<tool_call>(?:\\n|\s)*\{\\?"name/.test(source)),
  triggers: ['<tool_call>'],
  markers: ['</tool_call>'],
  read: between(['<tool_call>'], ['</tool_call>'], 'maybe'),
  write: (calls) => calls.map((call) => `<tool_call>\n${writeCallObject(call)}\n</tool_call>`).join('\n'),
  grammar: {
    triggers: ['<tool_call>'],
    separator: '\n',
    call: (tool) => callObject(tool, { begin: '<tool_call>\n', end: '\n</tool_call>' }),
  },
};

/** `[TOOL_CALLS][{...}]`: Mistral up to Nemo and Small 3; ids of nine letters and digits. */
export const mistralList: ToolStyle = {
  name: 'mistral-list',
  isTaught: ({ call }) => /\[TOOL_CALLS\]\s*\[\s*\{/.test(call),
  triggers: ['[TOOL_CALLS]'],
  read: between(['[TOOL_CALLS]'], [], 'maybe'),
  write: (calls) => `[TOOL_CALLS][${calls.map((call) => writeCallObject(call)).join(', ')}]`,
  grammar: {
    triggers: ['[TOOL_CALLS]'],
    block: { begin: '[TOOL_CALLS][', end: ']' },
    separator: ', ',
    call: callObject,
  },
};

/** A list of calls after a start marker, with an optional end marker. */
const markedList = (
  name: string,
  begin: string,
  end: string,
  isTaught: ToolStyle['isTaught'],
  trigger = begin,
): ToolStyle => ({
  name,
  isTaught,
  triggers: [trigger],
  markers: end === '' ? [] : [end],
  read: between([begin], end === '' ? [] : [end], 'maybe'),
  write: (calls) => `${begin}[${calls.map((call) => writeCallObject(call)).join(', ')}]${end}`,
  grammar: {
    triggers: [trigger],
    block: { begin: `${begin}[`, end: `]${end}` },
    separator: ', ',
    call: callObject,
  },
});

/** Phi-4-mini. */
export const phi = markedList('phi', '<|tool_call|>', '<|/tool_call|>', ({ source }) =>
  /<\|tool_call\|>[\s\S]*<\|\/tool_call\|>/.test(source),
);

/** Granite 3. */
export const granite = markedList('granite', '<|tool_call|>', '', ({ source }) =>
  source.includes('<|tool_call|>'),
);

/** FireFunction, and some Phi models. */
export const functools = markedList(
  'functools',
  'functools',
  '',
  ({ source }) => source.includes('functools['),
  // Not only the word, which also occurs in text about Python.
  'functools[',
);

/** `<tool_calls>[{...}]</tool_calls>`: Apriel 1.5 and 1.6. */
export const apriel = markedList(
  'apriel',
  '<tool_calls>',
  '</tool_calls>',
  ({ source, call }) =>
    /<tool_calls>\s*\[\s*\{\s*"name": ?"probe_tool"/.test(call) ||
    (call === '' && /<tool_calls>(?:\\n|\s)*\[(?:\\n|\s)*\{\\?"name/.test(source)),
);

const gigaTurn = 'function call<|role_sep|>\n';

/** GigaChat: 3.1 writes calls inside its turn, 3 as a separate turn. */
export const gigaChat: ToolStyle = {
  name: 'gigachat',
  isTaught: ({ call }) =>
    /(?:<\|function_call\|>|function call<\|role_sep\|>\n)\{"name": "probe_tool"/.test(call),
  triggers: ['<|function_call|>', `<|message_sep|>\n\n${gigaTurn}`, gigaTurn],
  markers: ['<|role_sep|>'],
  read: between(
    ['<|function_call|>', `<|message_sep|>\n\n${gigaTurn}`, gigaTurn],
    ['<|message_sep|>'],
    'maybe',
  ),
  grammar: {
    triggers: ['<|function_call|>'],
    separator: '',
    call: (tool) => callObject(tool, { begin: '<|function_call|>' }),
  },
};

/** Command R7B: a list of actions with `tool_name` and `parameters`. */
export const command: ToolStyle = {
  name: 'command',
  isTaught: ({ call }) => /<\|START_ACTION\|>/.test(call),
  triggers: ['<|START_ACTION|>'],
  markers: ['<|END_ACTION|>'],
  read: between(['<|START_ACTION|>'], ['<|END_ACTION|>'], 'maybe'),
  grammar: {
    triggers: ['<|START_ACTION|>'],
    block: { begin: '<|START_ACTION|>[\n    ', end: '\n]<|END_ACTION|>' },
    separator: ',\n    ',
    call: (tool) => ({
      type: 'tag',
      begin: '{"tool_call_id": "',
      content: {
        type: 'sequence',
        elements: [
          { type: 'regex', pattern: '[0-9]{1,3}' },
          { type: 'const_string', value: `", "tool_name": ${JSON.stringify(tool.name)}, "parameters": ` },
          argumentsOf(tool),
        ],
      },
      end: '}',
    }),
  },
};

/** Models write the fence on the same line or on one of the next two lines. */
const actionBegins = ['Action:\n```json', 'Action: ```json', 'Action:```json', 'Action:\n\n```json'];

/** Command R and R+: `Action:` and a fenced list with `tool_name` and `parameters`. */
export const commandAction: ToolStyle = {
  name: 'command-action',
  isTaught: ({ call }) => /Action:\s*```json\s*\[\s*\{\s*"tool_name": "probe_tool"/.test(call),
  triggers: actionBegins,
  markers: ['```'],
  read: between(actionBegins, ['```'], 'maybe'),
  grammar: {
    triggers: ['Action:\n```json'],
    block: { begin: 'Action:\n```json\n[\n    ', end: '\n]```' },
    separator: ',\n    ',
    call: (tool) => ({
      type: 'tag',
      begin: `{\n        "tool_name": ${JSON.stringify(tool.name)},\n        "parameters": `,
      content: argumentsOf(tool),
      end: '\n    }',
    }),
  },
};

const bareKeys = { ...usualKeys, name: ['name'], only: true };

/** Llama 3: the answer is one object, optionally after `<|python_tag|>`; several are separated by `;`. */
export const llama: ToolStyle = {
  name: 'llama',
  isTaught: ({ call }) => /\{"name": "probe_tool", "parameters":/.test(call) && !call.includes('<tool_call>'),
  triggers: ['<|python_tag|>'],
  opening: ['{'],
  *read(source, sink) {
    yield* source.accept('<|python_tag|>');
    yield* source.space();
    for (;;) {
      if (!(yield* readCallObject(source, sink, bareKeys))) return false;
      source.hold();
      yield* source.space();
      if (!(yield* source.accept(';', ','))) return true;
      yield* source.space();
    }
  },
  write: (calls) => calls.map((call) => writeCallObject(call, 'parameters')).join('; '),
  grammar: {
    triggers: [],
    separator: '; ',
    call: (tool) => callObject(tool, { argumentsKey: 'parameters' }),
  },
};

/** Apertus: `[{"tool": {arguments}}]` between its markers. */
export const apertus: ToolStyle = {
  name: 'apertus',
  isTaught: ({ call }) => call.includes('<|tools_prefix|>'),
  triggers: ['<|tools_prefix|>'],
  markers: ['<|tools_suffix|>'],
  *read(source, sink) {
    if (!(yield* source.accept('<|tools_prefix|>'))) return false;
    const whole = yield* readCallList(source, sink, { read: readKeyedCall, list: 'always' });
    if (!whole) return false;
    yield* source.space();
    yield* source.accept('<|tools_suffix|>');
    return true;
  },
  grammar: {
    triggers: ['<|tools_prefix|>'],
    block: { begin: '<|tools_prefix|>[', end: ']<|tools_suffix|>' },
    separator: ', ',
    call: (tool) => ({
      type: 'tag',
      begin: `{${JSON.stringify(tool.name)}: `,
      content: argumentsOf(tool),
      end: '}',
    }),
  },
};

function* readKeyedCall(source: Source, sink: Sink): Reading<boolean> {
  if (!(yield* source.accept('{'))) return false;
  yield* source.space();
  const key = yield* readWholeJson(source);
  const name = key?.startsWith('"') ? (JSON.parse(key) as string) : undefined;
  if (name === undefined || !sink.tools.has(name)) return false;
  yield* source.space();
  if (!(yield* source.accept(':'))) return false;
  yield* source.space();
  if ((yield* source.peek()) !== '{') return false;
  sink.call(name);
  if (!(yield* readArguments(source, sink))) return false;
  yield* source.space();
  return yield* source.accept('}');
}
