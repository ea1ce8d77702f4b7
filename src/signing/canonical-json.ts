/** Maximum nesting, more than the host writes. Untrusted input must not exhaust the stack. */
const deepest = 64;

/**
 * The canonical JSON text of a value (RFC 8785): no white space, members sorted by UTF-16 code units, numbers printed
 * as in ECMAScript. Undefined members are left out. Throws `TypeError` for values without canonical JSON: lone
 * surrogates, NaN, infinities, functions, more than 64 levels.
 */
export function canonicalJson(value: unknown): string {
  return written(value, 0);
}

function written(value: unknown, depth: number): string {
  if (depth > deepest) throw new TypeError(`JSON nested deeper than ${deepest} levels`);
  if (Array.isArray(value)) return `[${value.map((element) => written(element, depth + 1)).join(',')}]`;
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
      const texts = members.map(([name, member]) => `${written(name, 0)}:${written(member, depth + 1)}`);
      return `{${texts.join(',')}}`;
    }
    default:
      throw new TypeError(`a ${typeof value} has no canonical JSON`);
  }
}
