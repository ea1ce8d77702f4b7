import { parseRegex } from '../../grammar/regex/parse.ts';
import { GrammarError, type StructuralFormat, type StructuralTag } from '../../grammar/types.ts';
import type { Sink } from '../parser/sink.ts';
import type { Reading, Source } from '../parser/source.ts';
import { jsonOfText, propertyOf, typesOf } from '../parser/typed-value.ts';
import type { BoundTool } from './style.ts';

/** Writes the JSON of an arguments object member by member. */
export class ObjectWriter {
  readonly #sink: Sink;
  readonly #names = new Set<string>();

  constructor(sink: Sink) {
    this.#sink = sink;
    sink.arguments('{');
  }

  /** Starts a member. Returns false for a duplicate, whose value must be dropped. */
  begin(name: string): boolean {
    if (this.#names.has(name)) return false;
    this.#sink.arguments(`${this.#names.size > 0 ? ', ' : ''}${JSON.stringify(name)}: `);
    this.#names.add(name);
    return true;
  }

  end(): void {
    this.#sink.arguments('}');
  }
}

/**
 * Reads a plain text value up to and including an end marker. Strings are streamed; values of other types are converted
 * when they are complete.
 */
export function* readTextValue(
  source: Source,
  sink: Sink,
  place: {
    readonly tool: string;
    readonly name: string;
    readonly writer: ObjectWriter;
    readonly ends: readonly string[];
    /** Whether the model declared the value as text; undefined: use the schema. */
    readonly isText?: boolean;
  },
): Reading<boolean> {
  const schema = sink.tools.get(place.tool)?.parameters;
  const written = place.writer.begin(place.name);
  const types =
    place.isText === undefined
      ? typesOf(propertyOf(schema, place.name), schema)
      : place.isText
        ? new Set(['string'])
        : undefined;
  const streams = types?.size === 1 && types.has('string');
  const parts: string[] = [];
  if (streams && written) sink.arguments('"');
  const end = yield* source.until(place.ends, (text) => {
    if (!streams) parts.push(text);
    else if (written) sink.arguments(JSON.stringify(text).slice(1, -1));
  });
  if (written) sink.arguments(streams ? '"' : jsonOfText(parts.join(''), types));
  if (end !== undefined) source.skip(end.length);
  return end !== undefined;
}

type Schema = Readonly<Record<string, unknown>>;

/** The text around the value of one parameter. */
export interface ParameterForm {
  begin(name: string, isText: boolean): string;
  readonly end: string;
}

/**
 * The format of parameters as tagged texts: the required ones in the schema's order, then the others. Enforces `enum`,
 * `const` and `pattern` of strings.
 * @throws GrammarError `unsupported_schema` for a strict tool with other string keywords
 */
export function parametersFormat(tool: BoundTool, form: ParameterForm): StructuralFormat {
  if (isAnyObject(tool.schema)) return { type: 'any_text' };
  const properties = (tool.schema['properties'] ?? {}) as Readonly<Record<string, unknown>>;
  const required = Array.isArray(tool.schema['required']) ? (tool.schema['required'] as unknown[]) : [];
  const names = Object.keys(properties);
  const tag = (name: string) => parameterTag(tool, form, name, properties[name]);
  const elements: StructuralFormat[] = names.filter((name) => required.includes(name)).map(tag);
  const optional = names.filter((name) => !required.includes(name)).map(tag);
  if (optional.length > 0) {
    elements.push({ type: 'tags_with_separator', tags: optional, separator: '' });
  }
  return { type: 'sequence', elements };
}

function parameterTag(tool: BoundTool, form: ParameterForm, name: string, schema: unknown) {
  const types = typesOf(schema, tool.schema);
  const isText = !types || types.has('string');
  return {
    type: 'tag' as const,
    begin: form.begin(name, isText),
    content: isText ? textFormat(tool, name, schema) : jsonValue(tool, withDefinitions(schema, tool.schema)),
    end: form.end,
  };
}

/** A JSON value that matches its schema; any JSON if the schema cannot be enforced and the tool is not strict. */
export const jsonValue = (tool: BoundTool, schema: unknown): StructuralFormat => ({
  type: 'json_schema',
  json_schema: schema,
  ...(tool.strict ? {} : { otherwise: true }),
});

const unenforced = ['minLength', 'maxLength', 'format', 'anyOf', 'oneOf', 'allOf', 'not', '$ref'];

function textFormat(tool: BoundTool, name: string, schema: unknown): StructuralFormat {
  const bounds = (typeof schema === 'object' && schema !== null ? schema : {}) as Schema;
  const choices = Array.isArray(bounds['enum'])
    ? bounds['enum']
    : 'const' in bounds
      ? [bounds['const']]
      : undefined;
  if (choices && choices.length > 0) {
    const elements = choices.map((one) => ({
      type: 'const_string' as const,
      value: typeof one === 'string' ? one : JSON.stringify(one),
    }));
    return elements.length === 1 ? (elements[0] as StructuralFormat) : { type: 'or', elements };
  }
  const pattern = bounds['pattern'];
  if (typeof pattern === 'string' && /^\^.*\$$/s.test(pattern) && isReadable(pattern)) {
    return { type: 'regex', pattern };
  }
  const loose = [...unenforced, 'pattern'].filter((keyword) => keyword in bounds);
  if (tool.strict && loose.length > 0) {
    throw new GrammarError(
      'unsupported_schema',
      `This model writes string arguments without quotes, so '${loose[0]}' cannot be enforced for '${name}' of the strict tool '${tool.name}'. Omit it, or omit strict.`,
      { path: `/properties/${name}/${loose[0]}` },
    );
  }
  return { type: 'any_text' };
}

function isReadable(pattern: string): boolean {
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
export interface ArgumentForm {
  readonly assign: string;
  readonly separator: string;
  /** The format of arbitrary arguments. */
  readonly any: StructuralFormat;
  value(schema: unknown, place: { tool: BoundTool; name: string }): StructuralFormat;
}

/** The format of separated arguments: the required ones in the schema's order, then the others. */
export function argumentsFormat(tool: BoundTool, form: ArgumentForm): StructuralFormat {
  if (isAnyObject(tool.schema)) return form.any;
  const properties = (tool.schema['properties'] ?? {}) as Readonly<Record<string, unknown>>;
  const required = Array.isArray(tool.schema['required']) ? (tool.schema['required'] as unknown[]) : [];
  const tag = (name: string, separated: boolean): StructuralTag => ({
    type: 'tag',
    begin: `${separated ? form.separator : ''}${name}${form.assign}`,
    content: form.value(withDefinitions(properties[name], tool.schema), { tool, name }),
    end: '',
  });
  const needed = Object.keys(properties).filter((name) => required.includes(name));
  const others = Object.keys(properties).filter((name) => !required.includes(name));
  const elements: StructuralFormat[] = needed.map((name, index) => tag(name, index > 0));
  if (others.length > 0) {
    const separated = needed.length > 0;
    elements.push({
      type: 'tags_with_separator',
      tags: others.map((name) => tag(name, separated)),
      separator: separated ? '' : form.separator,
    });
  }
  return { type: 'sequence', elements };
}

/** Classifies the schema of a value that is not written as JSON: an `enum` of strings, a simple type, or other. */
export function simpleKind(schema: unknown): { texts: readonly string[] } | 'text' | 'boolean' | 'other' {
  const types = typesOf(schema);
  const bounds = (typeof schema === 'object' && schema !== null ? schema : {}) as Schema;
  const choices = bounds['enum'];
  if (Array.isArray(choices) && choices.length > 0 && choices.every((one) => typeof one === 'string')) {
    return { texts: choices };
  }
  if (types?.size !== 1) return 'other';
  return types.has('string') ? 'text' : types.has('boolean') ? 'boolean' : 'other';
}
