/** A rewrite of WGSL: loops over single numbers take four neighboring ones at a time, with a load of a vector for each array. */
import { bodyOf, reflect } from '../../lab/wgsl/reflect.ts';
import { childrenOf, readStatements, type Statement } from '../../lab/wgsl/statements.ts';
import type { Range, Token } from '../../lab/wgsl/tokens.ts';
import { applyEdits, type Edit } from './edits.ts';

type Loop = Extract<Statement, { kind: 'for' }>;

const components = ['x', 'y', 'z', 'w'] as const;
/** A loop with one of these stays as it is. */
const stops = /\b(?:for|while|loop|break|continue|return|\w*[bB]arrier|subgroup\w*)\b/;

/** An access `array[base + counter]` in a loop. */
interface Access {
  readonly array: string;
  /** Text of `base`; empty without one. */
  readonly base: string;
  /** Tokens of the whole access. */
  readonly range: Range;
  readonly isWrite: boolean;
  /** Whether it is the target of `=` in every turn, so that the value before does not matter. */
  readonly isWhole: boolean;
}

/**
 * Loops `for (var c = local; c < count; c += WG)` over runtime-sized arrays of f32 that are read or written at `base + c` become loops
 * over vectors of four, and the arrays become arrays of vectors. It is right where `count` and each `base` are multiples of four, as
 * rows of most ops are; the gate decides.
 * @returns undefined where there is no such loop
 */
export function widenLoads(source: string): string | undefined {
  const module = new Module(source);
  const widened = new Set<string>();
  const edits: Edit[] = [];
  for (const loop of module.loops) {
    const text = module.widen(loop, widened);
    if (text !== undefined) edits.push({ ...module.offsets(loop), text });
  }
  if (edits.length === 0) return undefined;
  const others = module.otherAccesses(widened, edits);
  return others && applyEdits(source, [...edits, ...others, ...module.declarations(widened)]);
}

class Module {
  readonly #source: string;
  readonly #tokens: readonly Token[];
  /** Runtime-sized storage arrays of f32. */
  readonly #arrays: ReadonlySet<string>;
  readonly loops: readonly Loop[];

  constructor(source: string) {
    this.#source = source;
    const { tokens, functions } = reflect(source);
    this.#tokens = tokens;
    this.#arrays = new Set([...source.matchAll(declarationPattern)].map(([, name = '']) => name));
    const loops: Loop[] = [];
    const visit = (statement: Statement): void => {
      if (statement.kind === 'for') loops.push(statement);
      childrenOf(statement).forEach(visit);
    };
    for (const fn of functions) readStatements(tokens, bodyOf(tokens, fn)).forEach(visit);
    this.loops = loops;
  }

  /** Offsets of a range of tokens in the source. */
  offsets({ from, to }: Range): { from: number; to: number } {
    const [first, last] = [this.#tokens[from], this.#tokens[to - 1]];
    return { from: first?.offset ?? 0, to: last ? last.offset + last.length : 0 };
  }

  #textOf(range: Range): string {
    const { from, to } = this.offsets(range);
    return range.to > range.from ? this.#source.slice(from, to) : '';
  }

  /** Text of the loop over vectors; adds its arrays to `widened`. Undefined where it stays as it is. */
  widen(loop: Loop, widened: Set<string>): string | undefined {
    const [init] = loop.init;
    if (init?.kind !== 'declare' || loop.init.length !== 1 || !init.value || !loop.condition)
      return undefined;
    const counter = this.#tokens[init.name]?.text ?? '';
    const start = this.#textOf(init.value);
    const bound = new RegExp(String.raw`^${counter}\s*<\s*(.+)$`, 's').exec(
      this.#textOf(loop.condition),
    )?.[1];
    const update = loop.update.map((one) => this.#textOf(one)).join();
    const step = new RegExp(String.raw`^${counter}\s*\+=\s*(\w+)$`).exec(update)?.[1];
    const first = loop.body.at(0)?.from;
    if (bound === undefined || step === undefined || first === undefined || !/^\w+$/.test(start))
      return undefined;
    const body = { from: first, to: loop.to - 1 };
    const text = this.#textOf(body);
    if (stops.test(text) || new RegExp(String.raw`\b${counter}\s*(?:[-+*/%&|^]?=(?!=)|\+\+|--)`).test(text))
      return undefined;
    const accesses = this.#accessesOf(body, counter);
    if (!accesses || accesses.length === 0) return undefined;

    const vectors = new Map<string, { name: string; place: string; of: Access[] }>();
    for (const access of accesses) {
      const key = `${access.array} ${access.base}`;
      const place = access.base === '' ? `${counter}_four` : `(${access.base}) / 4u + ${counter}_four`;
      const vector = vectors.get(key) ?? {
        name: `${access.array}_four_${vectors.size}`,
        place: `${access.array}[${place}]`,
        of: [],
      };
      vector.of.push(access);
      vectors.set(key, vector);
    }
    // Two bases of a written array may be the same elements.
    const written = accesses.filter(({ isWrite }) => isWrite).map(({ array }) => array);
    if (written.some((array) => [...vectors.keys()].filter((key) => key.startsWith(`${array} `)).length > 1))
      return undefined;
    const loads = [...vectors.values()].map(({ name, place, of }) => {
      if (!of.some(({ isWrite }) => isWrite)) return `let ${name} = ${place};`;
      return of.every(({ isWhole }) => isWhole) ? `var ${name}: vec4<f32>;` : `var ${name} = ${place};`;
    });
    const stores = [...vectors.values()]
      .filter(({ of }) => of.some(({ isWrite }) => isWrite))
      .map(({ name, place }) => `${place} = ${name};`);
    const turns = components.map((component, n) => {
      const edits = [...vectors.values()].flatMap(({ name, of }) =>
        of.map(({ range }) => ({ ...this.offsets(range), text: `${name}.${component}` })),
      );
      const turn = applyEdits(this.#source, edits, this.offsets(body));
      return `{ let ${counter} = 4u * ${counter}_four + ${n}u; ${turn} }`;
    });
    for (const { array } of accesses) widened.add(array);
    const head = `for (var ${counter}_four = ${start}; ${counter}_four < (${bound}) / 4u; ${counter}_four += ${step})`;
    return `${head} {\n${[...loads, ...turns, ...stores].join('\n')}\n}`;
  }

  /** The accesses of a loop's body that a vector can replace; undefined where another one prevents it. */
  #accessesOf(body: Range, counter: string): Access[] | undefined {
    const declared = new Set(
      [...this.#textOf(body).matchAll(/\b(?:let|var|const)\s+(\w+)/g)].map(([, name]) => name),
    );
    const accesses: Access[] = [];
    let depth = 0;
    for (let at = body.from; at < body.to; at++) {
      const text = this.#tokens[at]?.text ?? '';
      depth += text === '{' ? 1 : text === '}' ? -1 : 0;
      if (!this.#arrays.has(text)) continue;
      const close = this.#closeOf(at);
      if (close === undefined || this.#tokens[at - 1]?.text === '&') return undefined;
      const index = { from: at + 2, to: close };
      const words = this.#words(index);
      // Such an access becomes one of a component, outside of the loop's own vectors.
      if (!words.includes(counter)) return undefined;
      const base = this.#baseOf(index, counter);
      if (base === undefined || words.some((word) => declared.has(word) || this.#arrays.has(word)))
        return undefined;
      const operator = this.#tokens[close + 1]?.text ?? '';
      const isWrite = /^(?:[-+*/]?=|\+\+|--)$/.test(operator);
      accesses.push({
        array: text,
        base,
        range: { from: at, to: close + 1 },
        isWrite,
        isWhole: operator === '=' && depth === 0,
      });
      at = close;
    }
    // What is read of an array before it is written must be loaded.
    return accesses.map((one) =>
      one.isWrite && accesses.some((other) => other.array === one.array && !other.isWrite)
        ? { ...one, isWhole: false }
        : one,
    );
  }

  /** `base` of an index `base + counter` or `counter + base`, of sums and products; undefined for any other index. */
  #baseOf({ from, to }: Range, counter: string): string | undefined {
    const textAt = (at: number) => this.#tokens[at]?.text ?? '';
    const isPlain = (range: Range): boolean =>
      !this.#words(range).includes(counter) && /^[\w.+*() ]*$/.test(this.#textOf(range));
    if (to - from === 1) return '';
    const base =
      textAt(to - 1) === counter && textAt(to - 2) === '+'
        ? { from, to: to - 2 }
        : textAt(from) === counter && textAt(from + 1) === '+'
          ? { from: from + 2, to }
          : undefined;
    return base && isPlain(base) ? this.#textOf(base) : undefined;
  }

  #words({ from, to }: Range): string[] {
    return this.#tokens.slice(from, to).map(({ text }) => text);
  }

  /** Token of the bracket that ends the index of an array at a token. */
  #closeOf(at: number): number | undefined {
    return this.#tokens[at + 1]?.text === '[' ? this.#tokens[at + 1]?.matchIndex : undefined;
  }

  /** Accesses of widened arrays elsewhere, by component; undefined where one is a write or a pointer. */
  otherAccesses(widened: ReadonlySet<string>, edits: readonly Edit[]): Edit[] | undefined {
    const found: Edit[] = [];
    for (const [at, { text, offset }] of this.#tokens.entries()) {
      const isDeclared = this.#tokens[at + 1]?.text === ':';
      const isInside = edits.some(({ from, to }) => offset >= from && offset < to);
      if (!widened.has(text) || isDeclared || isInside || this.#tokens[at - 1]?.text === '.') continue;
      const close = this.#closeOf(at);
      if (close === undefined || this.#tokens[at - 1]?.text === '&') return undefined;
      const index = { from: at + 2, to: close };
      const isWritten = /^(?:[-+*/]?=|\+\+|--)$/.test(this.#tokens[close + 1]?.text ?? '');
      if (isWritten || this.#words(index).some((word) => widened.has(word))) return undefined;
      const place = this.#textOf(index);
      const range = this.offsets({ from: at, to: close + 1 });
      found.push({ ...range, text: `${text}[(${place}) / 4u][(${place}) % 4u]` });
    }
    return found;
  }

  declarations(widened: ReadonlySet<string>): Edit[] {
    return [...this.#source.matchAll(declarationPattern)].flatMap(({ 0: text, 1: name = '', index }) =>
      widened.has(name)
        ? [{ from: index, to: index + text.length, text: text.replace(/array<f32>$/, 'array<vec4<f32>>') }]
        : [],
    );
  }
}

const declarationPattern = /var<storage(?:\s*,\s*\w+)?>\s*(\w+)\s*:\s*array<f32>/g;
