import { isRecord, type Json } from '../../util/json.ts';

/** The JSON types that a schema allows; undefined when it does not restrict them. */
export function allowedTypes(
  schema: unknown,
  root: unknown = schema,
  depth = 0,
): ReadonlySet<string> | undefined {
  if (!isRecord(schema) || depth > 16) return undefined;
  if (typeof schema['$ref'] === 'string')
    return allowedTypes(resolvePointer(schema['$ref'], root), root, depth + 1);
  const listed = schema['type'];
  if (typeof listed === 'string') return new Set([listed]);
  if (Array.isArray(listed)) return new Set(listed.filter((entry) => typeof entry === 'string'));
  if (Array.isArray(schema['enum'])) return new Set(schema['enum'].map(typeOf));
  if ('const' in schema) return new Set([typeOf(schema['const'])]);
  const choices = schema['anyOf'] ?? schema['oneOf'];
  if (!Array.isArray(choices)) return undefined;
  const types = new Set<string>();
  for (const choice of choices) {
    const choiceTypes = allowedTypes(choice, root, depth + 1);
    if (!choiceTypes) return undefined;
    for (const type of choiceTypes) types.add(type);
  }
  return types;
}

/** The schema of a property; undefined when the schema does not declare it. */
export function propertySchema(schema: Json | undefined, name: string): unknown {
  const properties = schema?.['properties'];
  return isRecord(properties) && Object.hasOwn(properties, name) ? properties[name] : undefined;
}

function resolvePointer(reference: string, root: unknown): unknown {
  if (!reference.startsWith('#')) return undefined;
  let found = root;
  for (const step of reference.split('/').slice(1)) {
    const name = step.replaceAll('~1', '/').replaceAll('~0', '~');
    found = isRecord(found) && Object.hasOwn(found, name) ? found[name] : undefined;
  }
  return found;
}

function typeOf(value: unknown): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  return typeof value;
}

const allowsType = (types: ReadonlySet<string>, value: unknown) => {
  const type = typeOf(value);
  return types.has(type) || (type === 'number' && types.has('integer') && Number.isInteger(value));
};

/** Converts a value that a model wrote as plain text to JSON of an allowed type. Falls back to a string. */
export function parseTypedText(text: string, types: ReadonlySet<string> | undefined): string {
  const trimmed = text.trim();
  try {
    const value = JSON.parse(trimmed) as unknown;
    const isText = typeof value === 'string';
    if (types ? allowsType(types, value) && !isText : !isText) return trimmed;
    // Keep a quoted string when the schema does not allow strings.
    if (isText && types && !types.has('string')) return trimmed;
  } catch {
    const pythonLiteral = { True: 'true', False: 'false', None: 'null' }[trimmed];
    if (pythonLiteral !== undefined && (!types || allowsType(types, JSON.parse(pythonLiteral))))
      return pythonLiteral;
  }
  return JSON.stringify(text);
}
