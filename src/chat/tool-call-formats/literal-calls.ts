import { GrammarError, type StructuralFormat } from '../../grammar/types.ts';
import { readName } from '../parser/call-object.ts';
import type { DeltaCollector } from '../parser/delta-collector.ts';
import type { IncrementalParse, TextStream } from '../parser/text-stream.ts';
import { allowedTypes } from '../parser/typed-value.ts';
import { type LiteralSyntax, readMembers, readValue } from './literal-syntax.ts';
import { argumentsFormat, jsonValueFormat, simpleTypeOf } from './parameters.ts';
import type { GrammarTool, ToolCallFormat } from './tool-call-format.ts';

/** JSON literals and Python literals. Templates print values in Python's syntax when they have no rule for them. */
const keywords = { True: 'true', False: 'false', None: 'null', true: 'true', false: 'false', null: 'null' };

const gemmaQuote = '<|"|>';
const gemmaSyntax: LiteralSyntax = { quotes: [gemmaQuote], escapes: false, keywords, bareKeys: true };

/** Gemma 4: `<|tool_call>call:name{key:<|"|>text<|"|>,other:1}<tool_call|>`. */
export const gemma4: ToolCallFormat = {
  name: 'gemma',
  isUsedBy: ({ call }) => call.includes('<|tool_call>call:probe_tool{'),
  triggers: ['<|tool_call>'],
  markers: ['<tool_call|>', gemmaQuote],
  *readCalls(source, collector) {
    if (!(yield* source.accept('<|tool_call>'))) return false;
    yield* source.skipSpace();
    yield* source.accept('call:');
    const name = yield* readName(source);
    if (!collector.tools.has(name) || !(yield* source.accept('{'))) return false;
    collector.startCall(name);
    if (!(yield* readMembers(source, gemmaSyntax, (json) => collector.addArguments(json)))) return false;
    source.hold();
    yield* source.skipSpace();
    yield* source.accept('<tool_call|>');
    return true;
  },
  grammar: {
    triggers: ['<|tool_call>'],
    separator: '',
    buildCallTag: (tool) => ({
      type: 'tag',
      begin: `<|tool_call>call:${tool.name}{`,
      content: argumentsFormat(tool, {
        assign: ':',
        separator: ',',
        any: { type: 'any_text' },
        value: gemmaValueFormat,
      }),
      end: '}<tool_call|>',
    }),
  },
};

/** The format of an argument. Enforces the full schema of scalars, but only the type and `enum` of strings. */
function gemmaValueFormat(
  schema: unknown,
  { tool, name }: { tool: GrammarTool; name: string },
): StructuralFormat {
  const kind = simpleTypeOf(schema);
  const types = allowedTypes(schema);
  const isScalar = types !== undefined && ['string', 'array', 'object'].every((type) => !types.has(type));
  if (isScalar) return jsonValueFormat(tool, schema);
  if (typeof kind === 'object') {
    const elements = kind.texts.map((text) => constString(`${gemmaQuote}${text}${gemmaQuote}`));
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
    return { type: 'tag', begin: gemmaQuote, content: { type: 'any_text' }, end: gemmaQuote };
  return { type: 'grammar', grammar: gemmaValueGrammar };
}

const constString = (value: string): StructuralFormat => ({ type: 'const_string', value });

const isOnlyTyped = (schema: unknown): boolean =>
  typeof schema === 'object' &&
  schema !== null &&
  Object.keys(schema).every((key) => ['type', 'description', 'title', 'default', 'examples'].includes(key));

const gemmaValueGrammar = `
root ::= text | number | "true" | "false" | "null" | object | list
text ::= "<|\\"|>" character* "<|\\"|>"
character ::= [^<] | "<" [^|<]
number ::= "-"? ("0" | [1-9] [0-9]{0,14}) ("." [0-9]{1,14})?
object ::= "{" (member ("," member)*)? "}"
member ::= [A-Za-z_] [A-Za-z0-9_-]{0,63} ":" root
list ::= "[" (root ("," root)*)? "]"
`;

const pythonSyntax: LiteralSyntax = { quotes: ['"', "'"], escapes: true, keywords, bareKeys: false };

/** LFM 2: a Python list of calls, `[name(key="text", other=1)]`. */
export const lfm: ToolCallFormat = {
  name: 'lfm',
  isUsedBy: ({ source }) => source.includes('List of tools: '),
  triggers: ['<|tool_call_start|>'],
  markers: ['<|tool_call_end|>'],
  *readCalls(source, collector) {
    if (!(yield* source.accept('<|tool_call_start|>'))) return false;
    yield* source.skipSpace();
    if (!(yield* source.accept('['))) return false;
    for (let count = 0; ; count++) {
      yield* source.skipSpace();
      if (count > 0) {
        if ((yield* source.accept(']')) || (yield* source.peek()) === '') break;
        if (!(yield* source.accept(','))) return false;
        yield* source.skipSpace();
      }
      if (!(yield* readPythonCall(source, collector))) return false;
      source.hold();
    }
    source.hold();
    yield* source.skipSpace();
    yield* source.accept('<|tool_call_end|>');
    return true;
  },
  serialize: (calls) =>
    `<|tool_call_start|>[${calls.map((call) => `${call.name}(${toPythonArguments(call.arguments)})`).join(', ')}]<|tool_call_end|>`,
  grammar: {
    triggers: ['<|tool_call_start|>'],
    block: { begin: '<|tool_call_start|>[', end: ']<|tool_call_end|>' },
    separator: ', ',
    buildCallTag: (tool) => ({
      type: 'tag',
      begin: `${tool.name}(`,
      content: argumentsFormat(tool, {
        assign: '=',
        separator: ', ',
        any: { type: 'regex', pattern: pythonArgumentsPattern },
        value: pythonValueFormat,
      }),
      end: ')',
    }),
  },
};

/** Any keyword arguments, with balanced quotes and no nested parentheses. */
const pythonArgumentsPattern = `([^()'"\\n]|'([^'\\\\\\n]|\\\\.)*'|"([^"\\\\\\n]|\\\\.)*")*`;

/** Python's strings, numbers and lists are valid JSON; only `True`, `False` and `None` differ. */
const pythonValueFormat = (schema: unknown, { tool }: { tool: GrammarTool }): StructuralFormat =>
  simpleTypeOf(schema) === 'boolean'
    ? { type: 'or', elements: ['True', 'False'].map((value) => ({ type: 'const_string', value })) }
    : jsonValueFormat(tool, schema);

function* readPythonCall(source: TextStream, collector: DeltaCollector): IncrementalParse<boolean> {
  const name = yield* readName(source);
  if (!collector.tools.has(name) || !(yield* source.accept('('))) return false;
  collector.startCall(name);
  collector.addArguments('{');
  const isComplete = yield* readKeywords(source, collector);
  collector.addArguments('}');
  return isComplete;
}

function* readKeywords(source: TextStream, collector: DeltaCollector): IncrementalParse<boolean> {
  for (let count = 0; ; count++) {
    yield* source.skipSpace();
    if (yield* source.accept(')')) return true;
    if (count > 0) {
      if (!(yield* source.accept(','))) return false;
      yield* source.skipSpace();
    }
    const key = yield* source.readWhile(/[\p{L}\p{N}_]/u, 256);
    yield* source.skipSpace();
    if (key === '' || !(yield* source.accept('='))) return false;
    collector.addArguments(`${count > 0 ? ', ' : ''}${JSON.stringify(key)}: `);
    if (!(yield* readValue(source, pythonSyntax, (json) => collector.addArguments(json)))) return false;
  }
}

function toPythonArguments(json: string): string {
  const value = JSON.parse(json) as Record<string, unknown>;
  return Object.entries(value)
    .map(([key, argument]) => `${key}=${toPythonValue(argument)}`)
    .join(', ');
}

function toPythonValue(value: unknown): string {
  if (value === null) return 'None';
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  if (Array.isArray(value)) return `[${value.map(toPythonValue).join(', ')}]`;
  if (typeof value !== 'object') return JSON.stringify(value);
  const members = Object.entries(value).map(
    ([key, argument]) => `${JSON.stringify(key)}: ${toPythonValue(argument)}`,
  );
  return `{${members.join(', ')}}`;
}
