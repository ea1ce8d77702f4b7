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
  // Objects and arrays alone, and paths of what is found alone: a body may be millions of numbers.
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
    // The first one is the next.
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
  /** Its name in the parent. */
  readonly key: string | number;
  readonly part: object;
  /** Its texts are names. */
  readonly names: boolean;
}

function pathOf(parent: Container | undefined, key: string | number): string {
  const path = [key];
  for (let one = parent; one?.parent !== undefined; one = one.parent) path.unshift(one.key);
  return path.join('.');
}
