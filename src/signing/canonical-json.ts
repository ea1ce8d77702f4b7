/** Maximum nesting, more than the host writes. Untrusted input must not exhaust the stack. */
const maxDepth = 64;

/**
 * The canonical JSON text of a value (RFC 8785): no white space, members sorted by UTF-16 code units, numbers printed
 * as in ECMAScript. Undefined members are left out. Throws `TypeError` for values without canonical JSON: lone
 * surrogates, NaN, infinities, functions, more than 64 levels.
 */
export function canonicalJson(value: unknown): string {
  return serialize(value, 0);
}

function serialize(value: unknown, depth: number): string {
  if (depth > maxDepth) throw new TypeError(`JSON nested deeper than ${maxDepth} levels`);
  if (Array.isArray(value)) return `[${value.map((element) => serialize(element, depth + 1)).join(',')}]`;
  switch (typeof value) {
    case 'string':
      if (!value.isWellFormed()) throw new TypeError('a text with a lone surrogate has no canonical JSON');
      return JSON.stringify(value);
    case 'number':
      if (!Number.isFinite(value)) throw new TypeError(`${value} has no canonical JSON`);
      return JSON.stringify(value);
    case 'boolean':
      return String(value);
    case 'object': {
      if (value === null) return 'null';
      const members = Object.entries(value).filter(([, member]) => member !== undefined);
      // String comparison is by UTF-16 code units, as the RFC requires.
      members.sort(([a], [b]) => (a < b ? -1 : 1));
      const serializedMembers = members.map(
        ([name, member]) => `${serialize(name, 0)}:${serialize(member, depth + 1)}`,
      );
      return `{${serializedMembers.join(',')}}`;
    }
    default:
      throw new TypeError(`a ${typeof value} has no canonical JSON`);
  }
}
