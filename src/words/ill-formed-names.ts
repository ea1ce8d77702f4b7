/** Names of members whose values identify something. */
const identifyingMember =
  /^(?:id|ids|name|names|key|model|user|subject|source|kind|role|harness|client|rack|agent|tool|op|kernel|workflow)$|_(?:ids?|keys?|names?|from)$/;
/** In UTF-8 JSON, a lone surrogate can occur only as an escape. */
const escapedSurrogate = /\\u[dD][89a-fA-F]/;
const maxFindings = 20;

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
export function findIllFormedNames(json: string, value: unknown): IllFormedName[] {
  if (!escapedSurrogate.test(json)) return [];
  const findings: IllFormedName[] = [];
  // Only objects and arrays are queued, and paths are built only for findings: a body can contain millions of numbers.
  const queue: Container[] = [];
  let children: Container[] = [];
  const inspect = (parent: Container | undefined, key: string | number, part: unknown, areNames: boolean) => {
    if (typeof part === 'object' && part !== null) children.push({ parent, key, part, areNames });
    else if (areNames && typeof part === 'string' && !part.isWellFormed())
      findings.push({
        path: pathOf(parent, key),
        message: 'expected Unicode text, got half a surrogate pair',
      });
  };
  const inspectContainer = (one: Container) => {
    const { part, areNames } = one;
    if (Array.isArray(part)) {
      for (let at = 0; at < part.length; at++) inspect(one, at, part[at], areNames);
      return;
    }
    for (const key in part) {
      if (key.isWellFormed()) inspect(one, key, part[key as keyof typeof part], identifyingMember.test(key));
      else
        findings.push({
          path: pathOf(one, key.toWellFormed()),
          message: 'expected a member name in Unicode, got half a surrogate pair',
        });
    }
  };
  inspect(undefined, '', value, false);
  while (findings.length < maxFindings) {
    // Reversed, so that the first child is next.
    for (let last = children.pop(); last !== undefined; last = children.pop()) queue.push(last);
    const one = queue.pop();
    if (one === undefined) break;
    children = [];
    inspectContainer(one);
  }
  return findings.slice(0, maxFindings);
}

interface Container {
  readonly parent: Container | undefined;
  /** Member name or index in the parent. */
  readonly key: string | number;
  readonly part: object;
  /** Whether its string values are names. */
  readonly areNames: boolean;
}

function pathOf(parent: Container | undefined, key: string | number): string {
  const path = [key];
  for (let one = parent; one?.parent !== undefined; one = one.parent) path.unshift(one.key);
  return path.join('.');
}
