import { isRecord, type Json } from '../../util/json.ts';

/**
 * Assembles the arguments of a call from pieces with a JSON path each (`$.places[0].name`); string values are appended.
 */
export class PartialArguments {
  #value: Record<string, unknown> = createBareObject();

  /** Merges complete arguments, or some of their members. */
  merge(members: Json): void {
    this.#value = Object.assign(createBareObject(), this.#value, members);
  }

  /** Adds a piece. @throws RangeError where the path of the piece is invalid */
  add(piece: unknown): void {
    if (!isRecord(piece) || typeof piece['jsonPath'] !== 'string') throw new RangeError('no path');
    const path = parsePath(piece['jsonPath']);
    const name = path.pop();
    if (typeof name !== 'string' && typeof name !== 'number') throw new RangeError('the path is the whole');
    const inner = [...path.slice(1), name];
    let container: Container = this.#value;
    if (typeof (path[0] ?? name) === 'number') throw new RangeError('arguments are no list');
    path.forEach((segment, index) => {
      container = descend(container, segment, typeof inner[index] === 'number');
    });
    const previous = read(container, name);
    const text = piece['stringValue'];
    write(
      container,
      name,
      typeof text === 'string' && typeof previous === 'string' ? previous + text : pieceValue(piece),
    );
  }

  get text(): string {
    return JSON.stringify(this.#value);
  }
}

type Container = Record<string, unknown> | unknown[];

/** Without a prototype, because the model chooses the names. */
const createBareObject = (): Record<string, unknown> => Object.create(null) as Record<string, unknown>;

function pieceValue(piece: Json): unknown {
  for (const name of ['stringValue', 'numberValue', 'boolValue']) if (name in piece) return piece[name];
  return null;
}

function descend(container: Container, segment: string | number, isList: boolean): Container {
  const existing = read(container, segment);
  if (typeof existing === 'object' && existing !== null) return existing as Container;
  const created: Container = isList ? [] : createBareObject();
  write(container, segment, created);
  return created;
}

function read(container: Container, segment: string | number): unknown {
  if (Array.isArray(container) !== (typeof segment === 'number')) throw new RangeError('list or object?');
  return Object.hasOwn(container, segment) ? (container as Record<string, unknown>)[segment] : undefined;
}

function write(container: Container, segment: string | number, value: unknown): void {
  // Items arrive in order; an array with holes could become as long as any index.
  if (Array.isArray(container) && typeof segment === 'number' && segment > container.length)
    throw new RangeError('an item is missing');
  // Assignment would treat `__proto__` specially.
  const descriptor = { value, writable: true, enumerable: true, configurable: true };
  Object.defineProperty(container, segment, descriptor);
}

/** Parses the part of RFC 9535 that addresses a single location: `.name`, `['name']`, `["name"]`, `[0]`. */
function parsePath(path: string): (string | number)[] {
  const segments: (string | number)[] = [];
  const pattern = /\.([^.[\]]+)|\[(\d+)\]|\['((?:[^'\\]|\\.)*)'\]|\["((?:[^"\\]|\\.)*)"\]/gy;
  if (!path.startsWith('$')) throw new RangeError('no path');
  pattern.lastIndex = 1;
  while (pattern.lastIndex < path.length) {
    const match = pattern.exec(path);
    if (!match) throw new RangeError('no path');
    const [, name, index, single, double] = match;
    if (index !== undefined) segments.push(Number(index));
    else if (name !== undefined) segments.push(name);
    else segments.push(unescape(single === undefined ? (double ?? '') : single));
  }
  return segments;
}

const escapes: Readonly<Record<string, string>> = { b: '\b', f: '\f', n: '\n', r: '\r', t: '\t' };

const unescape = (text: string): string =>
  text.replaceAll(/\\(?:u([0-9a-f]{4})|([^]))/gi, (_, code: string | undefined, letter: string) =>
    code === undefined ? (escapes[letter] ?? letter) : String.fromCharCode(Number.parseInt(code, 16)),
  );
