/** Names of members whose values identify something. */
const naming =
  /^(?:id|ids|name|names|key|model|user|subject|source|kind|role|harness|client|rack|agent|tool|op|kernel|workflow)$|_(?:ids?|keys?|names?|from)$/;
/** In UTF-8 JSON, a lone surrogate can occur only as an escape. */
const escapedSurrogate = /\\u[dD][89a-fA-F]/;
const most = 20;

export interface IllFormedName {
  /** For example `events.0.id`. */
  readonly path: string;
  readonly message: string;
}

/**
 * Finds ids, names and keys of a body that contain a lone surrogate. They have no UTF-8 encoding: stored as U+FFFD, two
 * different names would become equal. In other texts a lone surrogate is harmless.
 * @param json the text that `value` was parsed from
 */
export function illFormedNames(json: string, value: unknown): IllFormedName[] {
  if (!escapedSurrogate.test(json)) return [];
  const found: IllFormedName[] = [];
  // Only objects and arrays are queued, and paths are built only for findings: a body can contain millions of numbers.
  const open: Container[] = [];
  let inner: Container[] = [];
  const look = (parent: Container | undefined, key: string | number, part: unknown, names: boolean) => {
    if (typeof part === 'object' && part !== null) inner.push({ parent, key, part, names });
    else if (names && typeof part === 'string' && !part.isWellFormed())
      found.push({ path: pathOf(parent, key), message: 'expected Unicode text, got half a surrogate pair' });
  };
  const lookInto = (one: Container) => {
    const { part, names } = one;
    if (Array.isArray(part)) {
      for (let at = 0; at < part.length; at++) look(one, at, part[at], names);
      return;
    }
    for (const key in part) {
      if (key.isWellFormed()) look(one, key, part[key as keyof typeof part], naming.test(key));
      else
        found.push({
          path: pathOf(one, key.toWellFormed()),
          message: 'expected a member name in Unicode, got half a surrogate pair',
        });
    }
  };
  look(undefined, '', value, false);
  while (found.length < most) {
    // Reversed, so that the first child is next.
    for (let last = inner.pop(); last !== undefined; last = inner.pop()) open.push(last);
    const one = open.pop();
    if (one === undefined) break;
    inner = [];
    lookInto(one);
  }
  return found.slice(0, most);
}

interface Container {
  readonly parent: Container | undefined;
  /** Member name or index in the parent. */
  readonly key: string | number;
  readonly part: object;
  /** Whether its string values are names. */
  readonly names: boolean;
}

function pathOf(parent: Container | undefined, key: string | number): string {
  const path = [key];
  for (let one = parent; one?.parent !== undefined; one = one.parent) path.unshift(one.key);
  return path.join('.');
}
