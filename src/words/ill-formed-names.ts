/** Members whose texts tell one thing from another. */
const naming =
  /^(?:id|ids|name|names|key|model|user|subject|source|kind|role|harness|client|rack|agent|tool|op|kernel|workflow)$|_(?:ids?|keys?|names?|from)$/;
/** JSON in UTF-8 can hold half a surrogate pair only as an escape. */
const escapedSurrogate = /\\u[dD][89a-fA-F]/;
const most = 20;

export interface IllFormedName {
  /** As `events.0.id`. */
  readonly path: string;
  readonly message: string;
}

/**
 * Ids, names and keys of a body with half a surrogate pair in them. They have no UTF-8: wherever they are stored they
 * become U+FFFD, and two different ones become the same. In other texts the half is merely unreadable.
 * @param json the text that `value` was parsed from
 */
export function illFormedNames(json: string, value: unknown): IllFormedName[] {
  if (!escapedSurrogate.test(json)) return [];
  const found: IllFormedName[] = [];
  const open: { path: string; value: unknown; names: boolean }[] = [{ path: '', value, names: false }];
  for (let one = open.pop(); one !== undefined && found.length < most; one = open.pop()) {
    const { path, value: part, names } = one;
    if (typeof part === 'string') {
      if (names && !part.isWellFormed())
        found.push({ path, message: 'expected Unicode text, got half a surrogate pair' });
    } else if (Array.isArray(part)) {
      part.forEach((each: unknown, at) => open.push({ path: below(path, String(at)), value: each, names }));
    } else if (typeof part === 'object' && part !== null) {
      for (const [key, member] of Object.entries(part)) {
        const inner = below(path, key.toWellFormed());
        if (!key.isWellFormed())
          found.push({
            path: inner,
            message: 'expected a member name in Unicode, got half a surrogate pair',
          });
        else open.push({ path: inner, value: member, names: naming.test(key) });
      }
    }
  }
  return found.reverse();
}

const below = (path: string, name: string): string => (path === '' ? name : `${path}.${name}`);
