import { parseRegex } from '../../grammar/regex/parse-regex.ts';
import { GrammarError, type StructuralFormat, type StructuralTag } from '../../grammar/types.ts';
import type { DeltaCollector } from '../parser/delta-collector.ts';
import type { IncrementalParse, TextStream } from '../parser/text-stream.ts';
import { parseTypedText, propertySchema, allowedTypes } from '../parser/typed-value.ts';
import type { GrammarTool } from './tool-call-format.ts';

/** Writes the JSON of an arguments object member by member. */
export class ObjectWriter {
  readonly #collector: DeltaCollector;
  readonly #names = new Set<string>();

  constructor(collector: DeltaCollector) {
    this.#collector = collector;
    collector.addArguments('{');
  }

  /** Starts a member. Returns false for a duplicate, whose value must be dropped. */
  begin(name: string): boolean {
    if (this.#names.has(name)) return false;
    this.#collector.addArguments(`${this.#names.size > 0 ? ', ' : ''}${JSON.stringify(name)}: `);
    this.#names.add(name);
    return true;
  }

  end(): void {
    this.#collector.addArguments('}');
  }
}

/**
 * Reads a plain text value up to and including an end marker. Strings are streamed; values of other types are converted
 * when they are complete.
 */
export function* readTextValue(
  stream: TextStream,
  collector: DeltaCollector,
  parameter: {
    readonly tool: string;
    readonly name: string;
    readonly writer: ObjectWriter;
    readonly ends: readonly string[];
    /** Whether the model declared the value as text; undefined: use the schema. */
    readonly isText?: boolean;
  },
): IncrementalParse<boolean> {
  const schema = collector.tools.get(parameter.tool)?.parameters;
  const isFirst = parameter.writer.begin(parameter.name);
  const types =
    parameter.isText === undefined
      ? allowedTypes(propertySchema(schema, parameter.name), schema)
      : parameter.isText
        ? new Set(['string'])
        : undefined;
  const isStreamed = types?.size === 1 && types.has('string');
  const parts: string[] = [];
  if (isStreamed && isFirst) collector.addArguments('"');
  const end = yield* stream.readUntil(parameter.ends, (text) => {
    if (!isStreamed) parts.push(text);
    else if (isFirst) collector.addArguments(JSON.stringify(text).slice(1, -1));
  });
  if (isFirst) collector.addArguments(isStreamed ? '"' : parseTypedText(parts.join(''), types));
  if (end !== undefined) stream.skip(end.length);
  return end !== undefined;
}

type Schema = Readonly<Record<string, unknown>>;

/** The text around the value of one parameter. */
export interface ParameterSyntax {
  begin(name: string, isText: boolean): string;
  readonly end: string;
}

/**
 * The format of parameters as tagged texts: the required ones in the schema's order, then the others. Enforces `enum`,
 * `const` and `pattern` of strings.
 * @throws GrammarError `unsupported_schema` for a strict tool with other string keywords
 */
export function parametersFormat(tool: GrammarTool, syntax: ParameterSyntax): StructuralFormat {
  if (isAnyObject(tool.schema)) return { type: 'any_text' };
  const properties = (tool.schema['properties'] ?? {}) as Readonly<Record<string, unknown>>;
  const required = Array.isArray(tool.schema['required']) ? (tool.schema['required'] as unknown[]) : [];
  const names = Object.keys(properties);
  const tag = (name: string) => parameterTag(tool, syntax, name, properties[name]);
  const elements: StructuralFormat[] = names.filter((name) => required.includes(name)).map(tag);
  const optional = names.filter((name) => !required.includes(name)).map(tag);
  if (optional.length > 0) {
    elements.push({ type: 'tags_with_separator', tags: optional, separator: '' });
  }
  return { type: 'sequence', elements };
}

function parameterTag(tool: GrammarTool, syntax: ParameterSyntax, name: string, schema: unknown) {
  const types = allowedTypes(schema, tool.schema);
  const isText = !types || types.has('string');
  return {
    type: 'tag' as const,
    begin: syntax.begin(name, isText),
    content: isText
      ? textFormat(tool, name, schema)
      : jsonValueFormat(tool, withDefinitions(schema, tool.schema)),
    end: syntax.end,
  };
}

/** A JSON value that matches its schema; any JSON if the schema cannot be enforced and the tool is not strict. */
export const jsonValueFormat = (tool: GrammarTool, schema: unknown): StructuralFormat => ({
  type: 'json_schema',
  json_schema: schema,
  ...(tool.strict ? {} : { otherwise: true }),
});

const unenforcedKeywords = ['minLength', 'maxLength', 'format', 'anyOf', 'oneOf', 'allOf', 'not', '$ref'];

function textFormat(tool: GrammarTool, name: string, schema: unknown): StructuralFormat {
  const constraints = (typeof schema === 'object' && schema !== null ? schema : {}) as Schema;
  const choices = Array.isArray(constraints['enum'])
    ? constraints['enum']
    : 'const' in constraints
      ? [constraints['const']]
      : undefined;
  if (choices && choices.length > 0) {
    const elements = choices.map((choice) => ({
      type: 'const_string' as const,
      value: typeof choice === 'string' ? choice : JSON.stringify(choice),
    }));
    return elements.length === 1 ? (elements[0] as StructuralFormat) : { type: 'or', elements };
  }
  const pattern = constraints['pattern'];
  if (typeof pattern === 'string' && /^\^.*\$$/s.test(pattern) && isSupportedPattern(pattern)) {
    return { type: 'regex', pattern };
  }
  const violated = [...unenforcedKeywords, 'pattern'].filter((keyword) => keyword in constraints);
  if (tool.strict && violated.length > 0) {
    throw new GrammarError(
      'unsupported_schema',
      `This model writes string arguments without quotes, so '${violated[0]}' cannot be enforced for '${name}' of the strict tool '${tool.name}'. Omit it, or omit strict.`,
      { path: `/properties/${name}/${violated[0]}` },
    );
  }
  return { type: 'any_text' };
}

function isSupportedPattern(pattern: string): boolean {
  try {
    parseRegex(pattern, 'whole');
    return true;
  } catch {
    return false;
  }
}

const isAnyObject = (schema: Schema): boolean =>
  schema['properties'] === undefined && schema['additionalProperties'] !== false;

/** A subschema together with the definitions of the root schema, which its references point to. */
function withDefinitions(schema: unknown, root: Schema): unknown {
  if (typeof schema !== 'object' || schema === null) return schema;
  const definitions = ['$defs', 'definitions'].filter((key) => key in root).map((key) => [key, root[key]]);
  return { ...Object.fromEntries(definitions), ...schema };
}

/** The syntax of a list of arguments. */
export interface ArgumentSyntax {
  readonly assign: string;
  readonly separator: string;
  /** The format of arbitrary arguments. */
  readonly any: StructuralFormat;
  value(schema: unknown, parameter: { tool: GrammarTool; name: string }): StructuralFormat;
}

/** The format of separated arguments: the required ones in the schema's order, then the others. */
export function argumentsFormat(tool: GrammarTool, syntax: ArgumentSyntax): StructuralFormat {
  if (isAnyObject(tool.schema)) return syntax.any;
  const properties = (tool.schema['properties'] ?? {}) as Readonly<Record<string, unknown>>;
  const required = Array.isArray(tool.schema['required']) ? (tool.schema['required'] as unknown[]) : [];
  const tag = (name: string, hasPrevious: boolean): StructuralTag => ({
    type: 'tag',
    begin: `${hasPrevious ? syntax.separator : ''}${name}${syntax.assign}`,
    content: syntax.value(withDefinitions(properties[name], tool.schema), { tool, name }),
    end: '',
  });
  const requiredNames = Object.keys(properties).filter((name) => required.includes(name));
  const optionalNames = Object.keys(properties).filter((name) => !required.includes(name));
  const elements: StructuralFormat[] = requiredNames.map((name, index) => tag(name, index > 0));
  if (optionalNames.length > 0) {
    const hasPrevious = requiredNames.length > 0;
    elements.push({
      type: 'tags_with_separator',
      tags: optionalNames.map((name) => tag(name, hasPrevious)),
      separator: hasPrevious ? '' : syntax.separator,
    });
  }
  return { type: 'sequence', elements };
}

/** Classifies the schema of a value that is not written as JSON: an `enum` of strings, a simple type, or other. */
export function simpleTypeOf(schema: unknown): { texts: readonly string[] } | 'text' | 'boolean' | 'other' {
  const types = allowedTypes(schema);
  const constraints = (typeof schema === 'object' && schema !== null ? schema : {}) as Schema;
  const choices = constraints['enum'];
  if (Array.isArray(choices) && choices.length > 0 && choices.every((choice) => typeof choice === 'string')) {
    return { texts: choices };
  }
  if (types?.size !== 1) return 'other';
  return types.has('string') ? 'text' : types.has('boolean') ? 'boolean' : 'other';
}
