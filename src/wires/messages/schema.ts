import { isRecord, type Json } from '../../util/json.ts';

/** String formats that the provider enforces. */
const enforcedFormats = new Set<unknown>([
  'date-time',
  'time',
  'date',
  'duration',
  'email',
  'hostname',
  'uri',
  'ipv4',
  'ipv6',
  'uuid',
]);
/** Keywords that are copied unchanged. */
const copiedKeywords = new Set(['type', 'enum', 'const', 'required', 'title', 'description', 'default']);
/** Keywords with schemas by name. */
const schemaMapKeywords = new Set(['properties', '$defs', 'definitions']);
/** Keywords with an array of schemas, and their replacement. */
const schemaListKeywords = new Map([
  ['anyOf', 'anyOf'],
  ['oneOf', 'anyOf'],
  ['allOf', 'allOf'],
]);
/** Keywords that do not constrain the value. */
const ignoredKeywords = new Set([
  '$schema',
  '$id',
  '$comment',
  'additionalProperties',
  'unevaluatedProperties',
]);

/** An object schema with arbitrary members, which the provider cannot enforce. */
export class OpenObjectError extends Error {
  /** Dotted path within the schema; empty for the schema itself. */
  readonly path: string;

  constructor(path: string) {
    super(`an object without fixed properties at '${path}'`);
    this.name = 'OpenObjectError';
    this.path = path;
  }
}

/**
 * Converts a schema to the provider's dialect: objects are closed, and unsupported constraints (lengths, ranges,
 * patterns) are added to the description, which the model reads.
 * @throws OpenObjectError where an object may have arbitrary members
 */
export function toPortableSchema(schema: Json, path = ''): Json {
  // Only definitions may be next to a reference.
  if (schema.$ref !== undefined) {
    const { $ref, $defs, definitions } = schema;
    const definitionMembers = {
      ...(isRecord($defs) ? { $defs } : {}),
      ...(isRecord(definitions) ? { definitions } : {}),
    };
    return { $ref, ...toPortableSchema(definitionMembers, path) };
  }
  const pathOf = (name: string) => (path === '' ? name : `${path}.${name}`);
  const portable: Record<string, unknown> = {};
  const describedConstraints: string[] = [];
  for (const [name, value] of Object.entries(schema)) {
    const choice = schemaListKeywords.get(name);
    if (copiedKeywords.has(name) || (name === 'format' && enforcedFormats.has(value))) {
      portable[name] = value;
    } else if (schemaMapKeywords.has(name) && isRecord(value)) {
      portable[name] = Object.fromEntries(
        Object.entries(value).map(([key, inner]) => [
          key,
          isRecord(inner) ? toPortableSchema(inner, pathOf(`${name}.${key}`)) : inner,
        ]),
      );
    } else if (choice !== undefined && Array.isArray(value)) {
      portable[choice] = value.map((inner: unknown, n) =>
        isRecord(inner) ? toPortableSchema(inner, pathOf(`${name}.${n}`)) : inner,
      );
    } else if (name === 'items' && isRecord(value)) {
      portable.items = toPortableSchema(value, pathOf('items'));
    } else if (name === 'minItems' && (value === 0 || value === 1)) {
      portable.minItems = value;
    } else if (!ignoredKeywords.has(name)) {
      describedConstraints.push(`${name}: ${JSON.stringify(value)}`);
    }
  }
  if (isObjectType(schema)) {
    if (allowsAnyMembers(schema)) throw new OpenObjectError(path);
    portable.additionalProperties = false;
  }
  if (describedConstraints.length > 0) {
    const constraintText = `{${describedConstraints.join(', ')}}`;
    portable.description =
      typeof portable.description === 'string'
        ? `${portable.description}\n\n${constraintText}`
        : constraintText;
  }
  return portable;
}

/**
 * Whether an object schema relies on arbitrary members. The provider closes every object, so such an object could only
 * be empty.
 */
function allowsAnyMembers({ properties, additionalProperties }: Json): boolean {
  const hasNames = isRecord(properties) && Object.keys(properties).length > 0;
  return hasNames ? isRecord(additionalProperties) : additionalProperties !== false;
}

const isObjectType = ({ type }: Json): boolean =>
  type === 'object' || (Array.isArray(type) && type.includes('object'));
