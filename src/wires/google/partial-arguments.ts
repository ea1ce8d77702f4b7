import { isRecord, type Json } from '../../util/json.ts';

/**
 * Assembles the arguments of a call from pieces with a JSON path each (`$.places[0].name`); string values are appended.
 */
export class PartialArguments {
  #value: Record<string, unknown> = bare();

  /** Merges complete arguments, or some of their members. */
  merge(members: Json): void {
    this.#value = Object.assign(bare(), this.#value, members);
  }

  /** Adds a piece. @throws RangeError where the path of the piece is invalid */
  take(piece: unknown): void {
    if (!isRecord(piece) || typeof piece['jsonPath'] !== 'string') throw new RangeError('no path');
    const path = segmentsOf(piece['jsonPath']);
    const name = path.pop();
    if (typeof name !== 'string' && typeof name !== 'number') throw new RangeError('the path is the whole');
    const inner = [...path.slice(1), name];
    let at: Holder = this.#value;
    if (typeof (path[0] ?? name) === 'number') throw new RangeError('arguments are no list');
    path.forEach((segment, place) => {
      at = within(at, segment, typeof inner[place] === 'number');
    });
    const before = read(at, name);
    const text = piece['stringValue'];
    write(at, name, typeof text === 'string' && typeof before === 'string' ? before + text : valueOf(piece));
  }

  get text(): string {
    return JSON.stringify(this.#value);
  }
}

type Holder = Record<string, unknown> | unknown[];

/** Without a prototype, because the model chooses the names. */
const bare = (): Record<string, unknown> => Object.create(null) as Record<string, unknown>;

function valueOf(piece: Json): unknown {
  for (const name of ['stringValue', 'numberValue', 'boolValue']) if (name in piece) return piece[name];
  return null;
}

function within(holder: Holder, segment: string | number, list: boolean): Holder {
  const found = read(holder, segment);
  if (typeof found === 'object' && found !== null) return found as Holder;
  const made: Holder = list ? [] : bare();
  write(holder, segment, made);
  return made;
}

function read(holder: Holder, segment: string | number): unknown {
  if (Array.isArray(holder) !== (typeof segment === 'number')) throw new RangeError('list or object?');
  return Object.hasOwn(holder, segment) ? (holder as Record<string, unknown>)[segment] : undefined;
}

function write(holder: Holder, segment: string | number, value: unknown): void {
  // Items arrive in order; an array with holes could become as long as any index.
  if (Array.isArray(holder) && typeof segment === 'number' && segment > holder.length)
    throw new RangeError('an item is missing');
  // Assignment would treat `__proto__` specially.
  const kept = { value, writable: true, enumerable: true, configurable: true };
  Object.defineProperty(holder, segment, kept);
}

/** Parses the part of RFC 9535 that addresses a single location: `.name`, `['name']`, `["name"]`, `[0]`. */
function segmentsOf(path: string): (string | number)[] {
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
    else segments.push(unescaped(single === undefined ? (double ?? '') : single));
  }
  return segments;
}

const escapes: Readonly<Record<string, string>> = { b: '\b', f: '\f', n: '\n', r: '\r', t: '\t' };

const unescaped = (text: string): string =>
  text.replaceAll(/\\(?:u([0-9a-f]{4})|([^]))/gi, (_, code: string | undefined, letter: string) =>
    code === undefined ? (escapes[letter] ?? letter) : String.fromCharCode(Number.parseInt(code, 16)),
  );
