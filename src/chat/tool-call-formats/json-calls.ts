import { readArguments, readCallList, readCallObject, defaultCallKeys } from '../parser/call-object.ts';
import { readWholeJson } from '../parser/read-json.ts';
import type { DeltaCollector } from '../parser/delta-collector.ts';
import type { IncrementalParse, TextStream } from '../parser/text-stream.ts';
import {
  jsonArgumentsFormat,
  callObjectTag,
  type ToolCallFormat,
  writeCallObject,
} from './tool-call-format.ts';

/** Creates a reader of a start text, one call object or a list of them, and an optional end text. */
const createJsonReader = (begins: readonly string[], ends: readonly string[], list: 'always' | 'maybe') =>
  function* read(source: TextStream, collector: DeltaCollector): IncrementalParse<boolean> {
    if (!(yield* source.accept(...begins))) return false;
    if (!(yield* readCallList(source, collector, { read: readCallObject, list }))) return false;
    yield* source.skipSpace();
    yield* source.accept(...ends);
    return true;
  };

/**
 * `<tool_call>{...}</tool_call>`: Hermes, Qwen 2.5 and 3, SmolLM, Bielik, Granite 4, and models whose template has no
 * tools.
 */
export const hermes: ToolCallFormat = {
  name: 'hermes',
  isUsedBy: ({ source, call }) =>
    /<tool_call>\s*\{\s*"name": ?"probe_tool"/.test(call) ||
    (call === '' && /<tool_call>(?:\\n|\s)*\{\\?"name/.test(source)),
  triggers: ['<tool_call>'],
  markers: ['</tool_call>'],
  readCalls: createJsonReader(['<tool_call>'], ['</tool_call>'], 'maybe'),
  serialize: (calls) => calls.map((call) => `<tool_call>\n${writeCallObject(call)}\n</tool_call>`).join('\n'),
  grammar: {
    triggers: ['<tool_call>'],
    separator: '\n',
    buildCallTag: (tool) => callObjectTag(tool, { begin: '<tool_call>\n', end: '\n</tool_call>' }),
  },
};

/** `[TOOL_CALLS][{...}]`: Mistral up to Nemo and Small 3; ids of nine letters and digits. */
export const mistralList: ToolCallFormat = {
  name: 'mistral-list',
  isUsedBy: ({ call }) => /\[TOOL_CALLS\]\s*\[\s*\{/.test(call),
  triggers: ['[TOOL_CALLS]'],
  readCalls: createJsonReader(['[TOOL_CALLS]'], [], 'maybe'),
  serialize: (calls) => `[TOOL_CALLS][${calls.map((call) => writeCallObject(call)).join(', ')}]`,
  grammar: {
    triggers: ['[TOOL_CALLS]'],
    block: { begin: '[TOOL_CALLS][', end: ']' },
    separator: ', ',
    buildCallTag: callObjectTag,
  },
};

/** A list of calls after a start marker, with an optional end marker. */
const createListFormat = (
  name: string,
  begin: string,
  end: string,
  isTaught: ToolCallFormat['isUsedBy'],
  trigger = begin,
): ToolCallFormat => ({
  name,
  isUsedBy: isTaught,
  triggers: [trigger],
  markers: end === '' ? [] : [end],
  readCalls: createJsonReader([begin], end === '' ? [] : [end], 'maybe'),
  serialize: (calls) => `${begin}[${calls.map((call) => writeCallObject(call)).join(', ')}]${end}`,
  grammar: {
    triggers: [trigger],
    block: { begin: `${begin}[`, end: `]${end}` },
    separator: ', ',
    buildCallTag: callObjectTag,
  },
});

/** Phi-4-mini. */
export const phi = createListFormat('phi', '<|tool_call|>', '<|/tool_call|>', ({ source }) =>
  /<\|tool_call\|>[\s\S]*<\|\/tool_call\|>/.test(source),
);

/** Granite 3. */
export const granite = createListFormat('granite', '<|tool_call|>', '', ({ source }) =>
  source.includes('<|tool_call|>'),
);

/** FireFunction, and some Phi models. */
export const functools = createListFormat(
  'functools',
  'functools',
  '',
  ({ source }) => source.includes('functools['),
  // Not only the word, which also occurs in text about Python.
  'functools[',
);

/** `<tool_calls>[{...}]</tool_calls>`: Apriel 1.5 and 1.6. */
export const apriel = createListFormat(
  'apriel',
  '<tool_calls>',
  '</tool_calls>',
  ({ source, call }) =>
    /<tool_calls>\s*\[\s*\{\s*"name": ?"probe_tool"/.test(call) ||
    (call === '' && /<tool_calls>(?:\\n|\s)*\[(?:\\n|\s)*\{\\?"name/.test(source)),
);

const gigaChatTurn = 'function call<|role_sep|>\n';

/** GigaChat: 3.1 writes calls inside its turn, 3 as a separate turn. */
export const gigaChat: ToolCallFormat = {
  name: 'gigachat',
  isUsedBy: ({ call }) =>
    /(?:<\|function_call\|>|function call<\|role_sep\|>\n)\{"name": "probe_tool"/.test(call),
  triggers: ['<|function_call|>', `<|message_sep|>\n\n${gigaChatTurn}`, gigaChatTurn],
  markers: ['<|role_sep|>'],
  readCalls: createJsonReader(
    ['<|function_call|>', `<|message_sep|>\n\n${gigaChatTurn}`, gigaChatTurn],
    ['<|message_sep|>'],
    'maybe',
  ),
  grammar: {
    triggers: ['<|function_call|>'],
    separator: '',
    buildCallTag: (tool) => callObjectTag(tool, { begin: '<|function_call|>' }),
  },
};

/** Command R7B: a list of actions with `tool_name` and `parameters`. */
export const command: ToolCallFormat = {
  name: 'command',
  isUsedBy: ({ call }) => /<\|START_ACTION\|>/.test(call),
  triggers: ['<|START_ACTION|>'],
  markers: ['<|END_ACTION|>'],
  readCalls: createJsonReader(['<|START_ACTION|>'], ['<|END_ACTION|>'], 'maybe'),
  grammar: {
    triggers: ['<|START_ACTION|>'],
    block: { begin: '<|START_ACTION|>[\n    ', end: '\n]<|END_ACTION|>' },
    separator: ',\n    ',
    buildCallTag: (tool) => ({
      type: 'tag',
      begin: '{"tool_call_id": "',
      content: {
        type: 'sequence',
        elements: [
          { type: 'regex', pattern: '[0-9]{1,3}' },
          { type: 'const_string', value: `", "tool_name": ${JSON.stringify(tool.name)}, "parameters": ` },
          jsonArgumentsFormat(tool),
        ],
      },
      end: '}',
    }),
  },
};

/** Models write the fence on the same line or on one of the next two lines. */
const actionPrefixes = ['Action:\n```json', 'Action: ```json', 'Action:```json', 'Action:\n\n```json'];

/** Command R and R+: `Action:` and a fenced list with `tool_name` and `parameters`. */
export const commandAction: ToolCallFormat = {
  name: 'command-action',
  isUsedBy: ({ call }) => /Action:\s*```json\s*\[\s*\{\s*"tool_name": "probe_tool"/.test(call),
  triggers: actionPrefixes,
  markers: ['```'],
  readCalls: createJsonReader(actionPrefixes, ['```'], 'maybe'),
  grammar: {
    triggers: ['Action:\n```json'],
    block: { begin: 'Action:\n```json\n[\n    ', end: '\n]```' },
    separator: ',\n    ',
    buildCallTag: (tool) => ({
      type: 'tag',
      begin: `{\n        "tool_name": ${JSON.stringify(tool.name)},\n        "parameters": `,
      content: jsonArgumentsFormat(tool),
      end: '\n    }',
    }),
  },
};

const llamaKeys = { ...defaultCallKeys, name: ['name'], isExact: true };

/** Llama 3: the answer is one object, optionally after `<|python_tag|>`; several are separated by `;`. */
export const llama: ToolCallFormat = {
  name: 'llama',
  isUsedBy: ({ call }) => /\{"name": "probe_tool", "parameters":/.test(call) && !call.includes('<tool_call>'),
  triggers: ['<|python_tag|>'],
  startTriggers: ['{'],
  *readCalls(source, collector) {
    yield* source.accept('<|python_tag|>');
    yield* source.skipSpace();
    for (;;) {
      if (!(yield* readCallObject(source, collector, llamaKeys))) return false;
      source.hold();
      yield* source.skipSpace();
      if (!(yield* source.accept(';', ','))) return true;
      yield* source.skipSpace();
    }
  },
  serialize: (calls) => calls.map((call) => writeCallObject(call, 'parameters')).join('; '),
  grammar: {
    triggers: [],
    separator: '; ',
    buildCallTag: (tool) => callObjectTag(tool, { argumentsKey: 'parameters' }),
  },
};

/** Apertus: `[{"tool": {arguments}}]` between its markers. */
export const apertus: ToolCallFormat = {
  name: 'apertus',
  isUsedBy: ({ call }) => call.includes('<|tools_prefix|>'),
  triggers: ['<|tools_prefix|>'],
  markers: ['<|tools_suffix|>'],
  *readCalls(source, collector) {
    if (!(yield* source.accept('<|tools_prefix|>'))) return false;
    const isComplete = yield* readCallList(source, collector, { read: readKeyedCall, list: 'always' });
    if (!isComplete) return false;
    yield* source.skipSpace();
    yield* source.accept('<|tools_suffix|>');
    return true;
  },
  grammar: {
    triggers: ['<|tools_prefix|>'],
    block: { begin: '<|tools_prefix|>[', end: ']<|tools_suffix|>' },
    separator: ', ',
    buildCallTag: (tool) => ({
      type: 'tag',
      begin: `{${JSON.stringify(tool.name)}: `,
      content: jsonArgumentsFormat(tool),
      end: '}',
    }),
  },
};

function* readKeyedCall(source: TextStream, collector: DeltaCollector): IncrementalParse<boolean> {
  if (!(yield* source.accept('{'))) return false;
  yield* source.skipSpace();
  const key = yield* readWholeJson(source);
  const name = key?.startsWith('"') ? (JSON.parse(key) as string) : undefined;
  if (name === undefined || !collector.tools.has(name)) return false;
  yield* source.skipSpace();
  if (!(yield* source.accept(':'))) return false;
  yield* source.skipSpace();
  if ((yield* source.peek()) !== '{') return false;
  collector.startCall(name);
  if (!(yield* readArguments(source, collector))) return false;
  yield* source.skipSpace();
  return yield* source.accept('}');
}
