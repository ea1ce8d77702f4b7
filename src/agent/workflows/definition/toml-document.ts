import { type AST, ParseError, parseTOML } from 'toml-eslint-parser';

/** Line and column, from 1. */
export interface Place {
  readonly line: number;
  readonly column: number;
}
export type Path = readonly (string | number)[];

/** Source ranges of a member of the document. */
interface Spot {
  key?: Range;
  value?: Range;
  readonly members: Map<string | number, Spot>;
}
type Range = [number, number];
type Table = Record<string, unknown>;

/** A syntax error, or a TOML value that is refused because JSON cannot represent it or it is unsafe. */
export interface TomlFault {
  readonly code: 'toml_syntax' | 'toml_too_deep' | 'toml_value';
  readonly message: string;
  readonly place: Place;
}

const deepest = 64;

/** A TOML 1.1 text as JSON values, with the source position of each. */
export class TomlDocument {
  readonly value: Table = {};
  readonly faults: TomlFault[] = [];
  /** Whether the text is valid TOML. `faults` may still list refused values. */
  readonly isParsed: boolean;
  readonly #text: string;
  /** Length of the byte order mark. */
  readonly #skipped: number;
  readonly #lineStarts: number[];
  readonly #root: Spot = { members: new Map() };

  constructor(source: string) {
    this.#skipped = source.startsWith('\uFEFF') ? 1 : 0;
    this.#text = source.slice(this.#skipped);
    this.#lineStarts = lineStarts(this.#text);
    try {
      for (const node of parseTOML(this.#text).body[0].body) this.#readTop(node);
      this.isParsed = true;
    } catch (error) {
      this.isParsed = false;
      this.faults.push(this.#syntaxFault(error));
    }
  }

  /**
   * Position of a member, or of its nearest existing ancestor.
   * @param within text within the value to point at
   */
  place(path: Path, at: 'key' | 'value' = 'value', within?: string): Place {
    let spot = this.#root;
    let range = spot.value;
    for (const [index, name] of path.entries()) {
      const next = spot.members.get(name);
      if (next === undefined) break;
      spot = next;
      const isLast = index === path.length - 1;
      // An ancestor is shown by its key.
      range = (isLast && at === 'value' ? spot.value : spot.key) ?? spot.key ?? spot.value ?? range;
    }
    if (range === undefined) return { line: 1, column: 1 };
    const inside = within === undefined ? -1 : this.#text.slice(...range).indexOf(within);
    return this.#placeOf(range[0] + Math.max(inside, 0));
  }

  /** Range of a value, in characters of the source. */
  range(path: Path): Range | undefined {
    let spot: Spot | undefined = this.#root;
    for (const name of path) spot = spot?.members.get(name);
    const [from, to] = spot?.value ?? [];
    return from === undefined || to === undefined ? undefined : [from + this.#skipped, to + this.#skipped];
  }

  #readTop(node: AST.TOMLKeyValue | AST.TOMLTable): void {
    if (node.type === 'TOMLKeyValue') {
      this.#readPair(node, this.value, this.#root, 0);
      return;
    }
    // Contains indices for arrays of tables.
    const path = node.resolvedKey;
    if (path.length > deepest) return this.#refuseDepth(node);
    let [table, spot] = [this.value, this.#root];
    let keyAt = 0;
    for (const [index, name] of path.entries()) {
      const range = typeof name === 'string' ? node.key.keys[keyAt++]?.range : node.key.range;
      spot = member(spot, name, range ?? node.key.range);
      const below: unknown = own(table, name);
      const made = below ?? (typeof path[index + 1] === 'number' ? [] : {});
      if (below === undefined) this.#put(table, name, made, range ?? node.key.range);
      table = made as Table;
    }
    for (const pair of node.body) this.#readPair(pair, table, spot, path.length);
  }

  #readPair(node: AST.TOMLKeyValue, into: Table, at: Spot, depth: number): void {
    const keys = node.key.keys;
    if (depth + keys.length > deepest) return this.#refuseDepth(node);
    let [table, spot] = [into, at];
    for (const [index, key] of keys.entries()) {
      const name = key.type === 'TOMLBare' ? key.name : key.value;
      spot = member(spot, name, key.range);
      if (index === keys.length - 1) {
        spot.value = node.value.range;
        this.#put(table, name, this.#read(node.value, spot, depth + keys.length), key.range);
      } else {
        const below = own(table, name) ?? {};
        this.#put(table, name, below, key.range);
        table = below as Table;
      }
    }
  }

  #read(node: AST.TOMLContentNode, spot: Spot, depth: number): unknown {
    if (depth > deepest) return this.#refuseDepth(node);
    if (node.type === 'TOMLArray')
      return node.elements.map((element, index) => {
        const below = member(spot, index, element.range);
        below.value = element.range;
        return this.#read(element, below, depth + 1);
      });
    if (node.type === 'TOMLInlineTable') {
      const table: Table = {};
      for (const pair of node.body) this.#readPair(pair, table, spot, depth);
      return table;
    }
    if (node.kind === 'offset-date-time') return node.value.toISOString();
    if (node.value instanceof Date) return 'datetime' in node ? node.datetime : '';
    if (node.kind === 'integer' && !Number.isSafeInteger(node.value))
      return this.#refuse(node, 'the number is too large: write it as a string');
    if (node.kind === 'float' && !Number.isFinite(node.value))
      return this.#refuse(node, 'inf and nan cannot be represented in JSON: write a number');
    return node.value;
  }

  #put(table: Table, name: string | number, value: unknown, range: Range): void {
    if (name === '__proto__')
      this.#refuse({ range }, "the name '__proto__' is not possible: choose another one");
    else table[name] = value;
  }

  #refuse({ range }: { range: Range }, message: string, code: TomlFault['code'] = 'toml_value'): undefined {
    this.faults.push({ code, message, place: this.#placeOf(range[0]) });
  }

  #refuseDepth(node: { range: Range }): undefined {
    return this.#refuse(node, `tables and lists may nest ${deepest} deep`, 'toml_too_deep');
  }

  /** Hint at the most frequent mistakes, because the parser names only the unexpected text. */
  #likelyCause(index: number): string {
    if (this.#lineStarts.length === 1 && this.#text.length > 80)
      return ' (the text came without line breaks: curl keeps them with --data-binary, and not with -d)';
    const line = this.#text.slice(0, index).lastIndexOf('\n') + 1;
    return /^\s*\[\s*steps\s*\]/.test(this.#text.slice(line)) ? ' (each step begins with [[steps]])' : '';
  }

  #syntaxFault(error: unknown): TomlFault {
    if (error instanceof ParseError)
      return {
        code: 'toml_syntax',
        message: `${error.message}${this.#likelyCause(error.index)}; from here on nothing could be read`,
        place: this.#placeOf(error.index),
      };
    // Thrown by the parser for deep recursion and very long texts.
    if (!(error instanceof RangeError)) throw error;
    const message = `a text has more than 100000 characters, or tables and lists nest more than ${deepest} deep`;
    return { code: 'toml_too_deep', message, place: { line: 1, column: 1 } };
  }

  /** Position of an offset. */
  #placeOf(offset: number): Place {
    const at = Math.max(0, Math.min(offset, this.#text.length));
    let [low, high] = [0, this.#lineStarts.length - 1];
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if ((this.#lineStarts[middle] ?? 0) <= at) low = middle;
      else high = middle - 1;
    }
    return { line: low + 1, column: at - (this.#lineStarts[low] ?? 0) + 1 };
  }
}

const own = (table: Table, name: string | number): unknown =>
  Object.hasOwn(table, name) ? table[name] : undefined;

function member(spot: Spot, name: string | number, key: Range): Spot {
  const known = spot.members.get(name);
  if (known !== undefined) return known;
  const made: Spot = { key, members: new Map() };
  spot.members.set(name, made);
  return made;
}

function lineStarts(text: string): number[] {
  const starts = [0];
  for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) starts.push(at + 1);
  return starts;
}
