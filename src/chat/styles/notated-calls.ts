import { GrammarError, type StructuralFormat } from '../../grammar/types.ts';
import { readName } from '../parser/call-object.ts';
import type { Sink } from '../parser/sink.ts';
import type { Reading, Source } from '../parser/source.ts';
import { typesOf } from '../parser/typed-value.ts';
import { type Notation, readMembers, readValue } from './notation.ts';
import { argumentsFormat, jsonValue, simpleKind } from './parameters.ts';
import type { BoundTool, ToolStyle } from './style.ts';

/** JSON literals and Python literals. Templates print values in Python's syntax when they have no rule for them. */
const words = { True: 'true', False: 'false', None: 'null', true: 'true', false: 'false', null: 'null' };

const gemmaText = '<|"|>';
const gemmaNotation: Notation = { quotes: [gemmaText], escapes: false, words, bareKeys: true };

/** Gemma 4: `<|tool_call>call:name{key:<|"|>text<|"|>,other:1}<tool_call|>`. */
export const gemma4: ToolStyle = {
  name: 'gemma',
  isTaught: ({ call }) => call.includes('<|tool_call>call:probe_tool{'),
  triggers: ['<|tool_call>'],
  markers: ['<tool_call|>', gemmaText],
  *read(source, sink) {
    if (!(yield* source.accept('<|tool_call>'))) return false;
    yield* source.space();
    yield* source.accept('call:');
    const name = yield* readName(source);
    if (!sink.tools.has(name) || !(yield* source.accept('{'))) return false;
    sink.call(name);
    if (!(yield* readMembers(source, gemmaNotation, (json) => sink.arguments(json)))) return false;
    source.hold();
    yield* source.space();
    yield* source.accept('<tool_call|>');
    return true;
  },
  grammar: {
    triggers: ['<|tool_call>'],
    separator: '',
    call: (tool) => ({
      type: 'tag',
      begin: `<|tool_call>call:${tool.name}{`,
      content: argumentsFormat(tool, {
        assign: ':',
        separator: ',',
        any: { type: 'any_text' },
        value: gemmaValue,
      }),
      end: '}<tool_call|>',
    }),
  },
};

/** The format of an argument. Enforces the full schema of scalars, but only the type and `enum` of strings. */
function gemmaValue(schema: unknown, { tool, name }: { tool: BoundTool; name: string }): StructuralFormat {
  const kind = simpleKind(schema);
  const types = typesOf(schema);
  const isScalar = types !== undefined && ['string', 'array', 'object'].every((type) => !types.has(type));
  if (isScalar) return jsonValue(tool, schema);
  if (typeof kind === 'object') {
    const elements = kind.texts.map((text) => constant(`${gemmaText}${text}${gemmaText}`));
    return { type: 'or', elements };
  }
  if (tool.strict && !(kind === 'text' && isOnlyTyped(schema))) {
    throw new GrammarError(
      'unsupported_schema',
      `This model does not write arguments as JSON, so the schema of '${name}' of the strict tool '${tool.name}' cannot be enforced. Omit strict.`,
      { path: `/properties/${name}` },
    );
  }
  if (kind === 'text')
    return { type: 'tag', begin: gemmaText, content: { type: 'any_text' }, end: gemmaText };
  return { type: 'grammar', grammar: anyGemmaValue };
}

const constant = (value: string): StructuralFormat => ({ type: 'const_string', value });

const isOnlyTyped = (schema: unknown): boolean =>
  typeof schema === 'object' &&
  schema !== null &&
  Object.keys(schema).every((key) => ['type', 'description', 'title', 'default', 'examples'].includes(key));

const anyGemmaValue = `
root ::= text | number | "true" | "false" | "null" | object | list
text ::= "<|\\"|>" character* "<|\\"|>"
character ::= [^<] | "<" [^|<]
number ::= "-"? ("0" | [1-9] [0-9]{0,14}) ("." [0-9]{1,14})?
object ::= "{" (member ("," member)*)? "}"
member ::= [A-Za-z_] [A-Za-z0-9_-]{0,63} ":" root
list ::= "[" (root ("," root)*)? "]"
`;

const python: Notation = { quotes: ['"', "'"], escapes: true, words, bareKeys: false };

/** LFM 2: a Python list of calls, `[name(key="text", other=1)]`. */
export const lfm: ToolStyle = {
  name: 'lfm',
  isTaught: ({ source }) => source.includes('List of tools: '),
  triggers: ['<|tool_call_start|>'],
  markers: ['<|tool_call_end|>'],
  *read(source, sink) {
    if (!(yield* source.accept('<|tool_call_start|>'))) return false;
    yield* source.space();
    if (!(yield* source.accept('['))) return false;
    for (let count = 0; ; count++) {
      yield* source.space();
      if (count > 0) {
        if ((yield* source.accept(']')) || (yield* source.peek()) === '') break;
        if (!(yield* source.accept(','))) return false;
        yield* source.space();
      }
      if (!(yield* readPythonCall(source, sink))) return false;
      source.hold();
    }
    source.hold();
    yield* source.space();
    yield* source.accept('<|tool_call_end|>');
    return true;
  },
  write: (calls) =>
    `<|tool_call_start|>[${calls.map((call) => `${call.name}(${pythonArguments(call.arguments)})`).join(', ')}]<|tool_call_end|>`,
  grammar: {
    triggers: ['<|tool_call_start|>'],
    block: { begin: '<|tool_call_start|>[', end: ']<|tool_call_end|>' },
    separator: ', ',
    call: (tool) => ({
      type: 'tag',
      begin: `${tool.name}(`,
      content: argumentsFormat(tool, {
        assign: '=',
        separator: ', ',
        any: { type: 'regex', pattern: pythonText },
        value: pythonFormat,
      }),
      end: ')',
    }),
  },
};

/** Any keyword arguments, with balanced quotes and no nested parentheses. */
const pythonText = `([^()'"\\n]|'([^'\\\\\\n]|\\\\.)*'|"([^"\\\\\\n]|\\\\.)*")*`;

/** Python's strings, numbers and lists are valid JSON; only `True`, `False` and `None` differ. */
const pythonFormat = (schema: unknown, { tool }: { tool: BoundTool }): StructuralFormat =>
  simpleKind(schema) === 'boolean'
    ? { type: 'or', elements: ['True', 'False'].map((value) => ({ type: 'const_string', value })) }
    : jsonValue(tool, schema);

function* readPythonCall(source: Source, sink: Sink): Reading<boolean> {
  const name = yield* readName(source);
  if (!sink.tools.has(name) || !(yield* source.accept('('))) return false;
  sink.call(name);
  sink.arguments('{');
  const whole = yield* readKeywords(source, sink);
  sink.arguments('}');
  return whole;
}

function* readKeywords(source: Source, sink: Sink): Reading<boolean> {
  for (let count = 0; ; count++) {
    yield* source.space();
    if (yield* source.accept(')')) return true;
    if (count > 0) {
      if (!(yield* source.accept(','))) return false;
      yield* source.space();
    }
    const key = yield* source.whileMatching(/[\p{L}\p{N}_]/u, 256);
    yield* source.space();
    if (key === '' || !(yield* source.accept('='))) return false;
    sink.arguments(`${count > 0 ? ', ' : ''}${JSON.stringify(key)}: `);
    if (!(yield* readValue(source, python, (json) => sink.arguments(json)))) return false;
  }
}

function pythonArguments(json: string): string {
  const value = JSON.parse(json) as Record<string, unknown>;
  return Object.entries(value)
    .map(([key, one]) => `${key}=${pythonValue(one)}`)
    .join(', ');
}

function pythonValue(value: unknown): string {
  if (value === null) return 'None';
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  if (Array.isArray(value)) return `[${value.map(pythonValue).join(', ')}]`;
  if (typeof value !== 'object') return JSON.stringify(value);
  const members = Object.entries(value).map(([key, one]) => `${JSON.stringify(key)}: ${pythonValue(one)}`);
  return `{${members.join(', ')}}`;
}
