import { type AST, ParseError, parseTOML } from 'toml-eslint-parser';

/** Line and column, from 1. */
export interface SourcePosition {
  readonly line: number;
  readonly column: number;
}
export type Path = readonly (string | number)[];

/** Source ranges of a member of the document. */
interface MemberRanges {
  key?: Range;
  value?: Range;
  readonly members: Map<string | number, MemberRanges>;
}
type Range = [number, number];
type Table = Record<string, unknown>;

/** A syntax error, or a TOML value that is refused because JSON cannot represent it or it is unsafe. */
export interface TomlFault {
  readonly code: 'toml_syntax' | 'toml_too_deep' | 'toml_value';
  readonly message: string;
  readonly position: SourcePosition;
}

const maxDepth = 64;

/** A TOML 1.1 text as JSON values, with the source position of each. */
export class TomlDocument {
  readonly value: Table = {};
  readonly faults: TomlFault[] = [];
  /** Whether the text is valid TOML. `faults` may still list refused values. */
  readonly isParsed: boolean;
  readonly #text: string;
  /** Length of the byte order mark. */
  readonly #bomLength: number;
  readonly #lineStarts: number[];
  readonly #root: MemberRanges = { members: new Map() };

  constructor(source: string) {
    this.#bomLength = source.startsWith('\uFEFF') ? 1 : 0;
    this.#text = source.slice(this.#bomLength);
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
  positionOf(path: Path, at: 'key' | 'value' = 'value', within?: string): SourcePosition {
    let ranges = this.#root;
    let range = ranges.value;
    for (const [index, name] of path.entries()) {
      const next = ranges.members.get(name);
      if (next === undefined) break;
      ranges = next;
      const isLast = index === path.length - 1;
      // An ancestor is shown by its key.
      range = (isLast && at === 'value' ? ranges.value : ranges.key) ?? ranges.key ?? ranges.value ?? range;
    }
    if (range === undefined) return { line: 1, column: 1 };
    const inside = within === undefined ? -1 : this.#text.slice(...range).indexOf(within);
    return this.#positionAt(range[0] + Math.max(inside, 0));
  }

  /** Range of a value, in characters of the source. */
  range(path: Path): Range | undefined {
    let ranges: MemberRanges | undefined = this.#root;
    for (const name of path) ranges = ranges?.members.get(name);
    const [from, to] = ranges?.value ?? [];
    return from === undefined || to === undefined
      ? undefined
      : [from + this.#bomLength, to + this.#bomLength];
  }

  #readTop(node: AST.TOMLKeyValue | AST.TOMLTable): void {
    if (node.type === 'TOMLKeyValue') {
      this.#readPair(node, this.value, this.#root, 0);
      return;
    }
    // Contains indices for arrays of tables.
    const path = node.resolvedKey;
    if (path.length > maxDepth) return this.#addDepthFault(node);
    let [table, ranges] = [this.value, this.#root];
    let keyAt = 0;
    for (const [index, name] of path.entries()) {
      const range = typeof name === 'string' ? node.key.keys[keyAt++]?.range : node.key.range;
      ranges = getOrCreateMember(ranges, name, range ?? node.key.range);
      const existing: unknown = ownMember(table, name);
      const created = existing ?? (typeof path[index + 1] === 'number' ? [] : {});
      if (existing === undefined) this.#setMember(table, name, created, range ?? node.key.range);
      table = created as Table;
    }
    for (const pair of node.body) this.#readPair(pair, table, ranges, path.length);
  }

  #readPair(node: AST.TOMLKeyValue, into: Table, at: MemberRanges, depth: number): void {
    const keys = node.key.keys;
    if (depth + keys.length > maxDepth) return this.#addDepthFault(node);
    let [table, ranges] = [into, at];
    for (const [index, key] of keys.entries()) {
      const name = key.type === 'TOMLBare' ? key.name : key.value;
      ranges = getOrCreateMember(ranges, name, key.range);
      if (index === keys.length - 1) {
        ranges.value = node.value.range;
        this.#setMember(table, name, this.#read(node.value, ranges, depth + keys.length), key.range);
      } else {
        const existing = ownMember(table, name) ?? {};
        this.#setMember(table, name, existing, key.range);
        table = existing as Table;
      }
    }
  }

  #read(node: AST.TOMLContentNode, ranges: MemberRanges, depth: number): unknown {
    if (depth > maxDepth) return this.#addDepthFault(node);
    if (node.type === 'TOMLArray')
      return node.elements.map((element, index) => {
        const existing = getOrCreateMember(ranges, index, element.range);
        existing.value = element.range;
        return this.#read(element, existing, depth + 1);
      });
    if (node.type === 'TOMLInlineTable') {
      const table: Table = {};
      for (const pair of node.body) this.#readPair(pair, table, ranges, depth);
      return table;
    }
    if (node.kind === 'offset-date-time') return node.value.toISOString();
    if (node.value instanceof Date) return 'datetime' in node ? node.datetime : '';
    if (node.kind === 'integer' && !Number.isSafeInteger(node.value))
      return this.#addFault(node, 'the number is too large: write it as a string');
    if (node.kind === 'float' && !Number.isFinite(node.value))
      return this.#addFault(node, 'inf and nan cannot be represented in JSON: write a number');
    return node.value;
  }

  #setMember(table: Table, name: string | number, value: unknown, range: Range): void {
    if (name === '__proto__')
      this.#addFault({ range }, "the name '__proto__' is not possible: choose another one");
    else table[name] = value;
  }

  #addFault({ range }: { range: Range }, message: string, code: TomlFault['code'] = 'toml_value'): undefined {
    this.faults.push({ code, message, position: this.#positionAt(range[0]) });
  }

  #addDepthFault(node: { range: Range }): undefined {
    return this.#addFault(node, `tables and lists may nest ${maxDepth} deep`, 'toml_too_deep');
  }

  /** Hint at the most frequent mistakes, because the parser names only the unexpected text. */
  #hintAtCause(index: number): string {
    if (this.#lineStarts.length === 1 && this.#text.length > 80)
      return ' (the text came without line breaks: curl keeps them with --data-binary, and not with -d)';
    const line = this.#text.slice(0, index).lastIndexOf('\n') + 1;
    return /^\s*\[\s*steps\s*\]/.test(this.#text.slice(line)) ? ' (each step begins with [[steps]])' : '';
  }

  #syntaxFault(error: unknown): TomlFault {
    if (error instanceof ParseError)
      return {
        code: 'toml_syntax',
        message: `${error.message}${this.#hintAtCause(error.index)}; from here on nothing could be read`,
        position: this.#positionAt(error.index),
      };
    // Thrown by the parser for deep recursion and very long texts.
    if (!(error instanceof RangeError)) throw error;
    const message = `a text has more than 100000 characters, or tables and lists nest more than ${maxDepth} deep`;
    return { code: 'toml_too_deep', message, position: { line: 1, column: 1 } };
  }

  /** Position of an offset. */
  #positionAt(offset: number): SourcePosition {
    const offsetInText = Math.max(0, Math.min(offset, this.#text.length));
    let [low, high] = [0, this.#lineStarts.length - 1];
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if ((this.#lineStarts[middle] ?? 0) <= offsetInText) low = middle;
      else high = middle - 1;
    }
    return { line: low + 1, column: offsetInText - (this.#lineStarts[low] ?? 0) + 1 };
  }
}

const ownMember = (table: Table, name: string | number): unknown =>
  Object.hasOwn(table, name) ? table[name] : undefined;

function getOrCreateMember(ranges: MemberRanges, name: string | number, key: Range): MemberRanges {
  const existing = ranges.members.get(name);
  if (existing !== undefined) return existing;
  const created: MemberRanges = { key, members: new Map() };
  ranges.members.set(name, created);
  return created;
}

function lineStarts(text: string): number[] {
  const starts = [0];
  for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) starts.push(at + 1);
  return starts;
}
