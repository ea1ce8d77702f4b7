import { didYouMean } from '../words/nearest.ts';
import { formatNames } from '../../kernels/formats.ts';
import type { Finding } from './answer-shapes.ts';
import type { KernelRegistration } from './types.ts';

/** Location in a file: line and column from 1. */
export interface FileLocation {
  readonly line: number;
  readonly column: number;
  readonly length: number;
}

/** Parsed `//!` directives at the top of a kernel file. */
export interface Header {
  op?: string;
  name?: string;
  entry_point?: string;
  dispatch?: { x: string; y?: string; z?: string };
  overrides: Record<string, number>;
  tunables: Record<string, number[]>;
  requires: ('shader-f16' | 'subgroups')[];
  dtypes: string[];
  /** Globs over components. */
  bind: string[];
  /** Location of each directive, by key. */
  readonly places: Map<string, FileLocation>;
  readonly faults: Finding[];
}

/** Pattern of a valid kernel name. */
export const kernelNamePattern = /^[a-z][a-z0-9_.-]{0,63}$/;
export const features = ['shader-f16', 'subgroups'] as const;
const identifier = /^[\p{L}_][\p{L}\p{N}_]*$/u;

/** Parses the value of a directive into the header. Returns an error text for an invalid value. */
type DirectiveParser = (header: Header, value: string) => string | undefined;

const splitList = (value: string): string[] =>
  value
    .split(',')
    .map((word) => word.trim())
    .filter((word) => word !== '');
const numberOf = (text: string): number => (text.trim() === '' ? Number.NaN : Number(text));

/** Parses a list of words from a fixed set. */
function parseWords<Word extends string>(
  value: string,
  known: readonly Word[],
  add: (word: Word) => void,
): string | undefined {
  const unknown = splitList(value).filter((word) => !(known as readonly string[]).includes(word));
  for (const word of splitList(value)) if (!unknown.includes(word)) add(word as Word);
  if (unknown.length === 0) return undefined;
  return `expected ${known.join(', ')}, got ${unknown.map((word) => `'${word}'`).join(', ')}`;
}

/** `WG = 64` */
function parseAssignment(
  value: string,
  accept: (name: string, right: string) => string | undefined,
): string | undefined {
  const [left = '', right, ...more] = value.split('=').map((part) => part.trim());
  if (right === undefined || more.length > 0 || !identifier.test(left))
    return `expected NAME = VALUE, got '${value}'`;
  return accept(left, right);
}

export const readOverride: DirectiveParser = (header, value) =>
  parseAssignment(value, (name, right) => {
    const number = numberOf(right);
    if (!Number.isFinite(number)) return `expected a number for ${name}, got '${right}'`;
    if (name in header.overrides) return `${name} is given twice`;
    header.overrides[name] = number;
    return undefined;
  });

export const readTunable: DirectiveParser = (header, value) =>
  parseAssignment(value, (name, right) => {
    const numbers = right.split(',').map(numberOf);
    if (!numbers.every(Number.isFinite)) return `expected numbers for ${name}, got '${right}'`;
    if (name in header.tunables) return `${name} is given twice`;
    header.tunables[name] = numbers;
    return undefined;
  });

export const readFeatures: DirectiveParser = (header, value) =>
  parseWords(value, features, (word) => void header.requires.push(word));
export const readFormats: DirectiveParser = (header, value) =>
  parseWords(value, formatNames, (word) => void header.dtypes.push(word));

const directiveParsers: Readonly<Record<string, DirectiveParser>> = {
  op: (header, value) => void (header.op = value),
  name(header, value) {
    if (!kernelNamePattern.test(value)) return kernelNameError(value);
    header.name = value;
  },
  entry(header, value) {
    if (!identifier.test(value)) return `expected a function name, got '${value}'`;
    header.entry_point = value;
  },
  dispatch(header, value) {
    const [x = '', y, z, ...more] = splitAtTopLevelCommas(value);
    if (more.length > 0 || x === '' || y === '' || z === '') return `expected x, or x, y, z; got '${value}'`;
    header.dispatch = { x, ...(y === undefined ? {} : { y }), ...(z === undefined ? {} : { z }) };
  },
  override: readOverride,
  tune: readTunable,
  requires: readFeatures,
  dtypes: readFormats,
  bind: (header, value) => void header.bind.push(...splitList(value)),
};
const keys = Object.keys(directiveParsers);
/** Directives that can occur more than once. */
const repeatable = ['override', 'tune', 'requires', 'dtypes', 'bind'];

export const kernelNameError = (name: string): string =>
  `expected a lowercase letter, then lowercase letters, digits, _ . or -, at most 64 characters; got '${name}'`;

/** Splits at commas outside of parentheses. */
function splitAtTopLevelCommas(text: string): string[] {
  const parts = [''];
  let depth = 0;
  for (const character of text) {
    if (character === '(') depth++;
    if (character === ')') depth--;
    if (character === ',' && depth === 0) parts.push('');
    else parts[parts.length - 1] += character;
  }
  return parts.map((part) => part.trim());
}

export const emptyHeader = (): Header => ({
  overrides: {},
  tunables: {},
  requires: [],
  dtypes: [],
  bind: [],
  places: new Map(),
  faults: [],
});

/** Parses the directives of a WGSL file: `//! key: value`, `//! override NAME = VALUE`, `//! tune NAME = A, B`. */
export function readHeader(lines: readonly string[]): Header {
  const header = emptyHeader();
  const fault = (location: FileLocation, message: string) =>
    header.faults.push({ code: 'directive', severity: 'error', message, ...location });
  let isInCode = false;
  for (const [index, text] of lines.entries()) {
    const match = /^(\s*\/\/!\s*)(.*?)\s*$/.exec(text);
    if (!match) {
      if (!/^\s*(\/\/.*)?$/.test(text)) isInCode = true;
      continue;
    }
    const [, start = '', directive = ''] = match;
    const location = { line: index + 1, column: start.length + 1, length: Math.max(1, directive.length) };
    if (isInCode) {
      fault(location, 'a directive after the first line of WGSL; move it to the top of the file');
      continue;
    }
    const parts = /^([\w-]+)(?:\s*:|\s)\s*(.*)$/.exec(directive);
    const key = parts?.[1] ?? directive.split(/[\s:]/)[0] ?? '';
    const read = Object.hasOwn(directiveParsers, key) ? directiveParsers[key] : undefined;
    if (read === undefined) {
      fault(
        location,
        `unknown directive '${key}'${didYouMean(key, keys, (near) => `'${near}'`)}; expected one of ${keys.join(', ')}`,
      );
      continue;
    }
    const value = parts?.[2] ?? '';
    if (value === '') fault(location, `${key} needs a value`);
    else if (header.places.has(key) && !repeatable.includes(key)) fault(location, `${key} is given twice`);
    else {
      const errorText = read(header, value);
      if (errorText !== undefined) fault(location, `${key}: ${errorText}`);
    }
    if (!header.places.has(key)) header.places.set(key, location);
  }
  return header;
}

/** Directives from which `readHeader` reads a registration again, but for its source. */
export function renderHeader({
  op,
  name,
  entry_point: entry,
  dispatch: { x, y, z },
  overrides = {},
  tunables = {},
  requires = [],
  dtypes = [],
}: Omit<KernelRegistration, 'name' | 'source'> & { readonly name?: string }): string {
  const dispatch = [
    x,
    ...(y === undefined && z === undefined ? [] : [y ?? '1']),
    ...(z === undefined ? [] : [z]),
  ];
  return [
    `op: ${op}`,
    ...(name === undefined ? [] : [`name: ${name}`]),
    ...(entry === undefined ? [] : [`entry: ${entry}`]),
    `dispatch: ${dispatch.join(', ')}`,
    ...Object.entries(overrides).map(([key, value]) => `override ${key} = ${value}`),
    ...Object.entries(tunables).map(([key, values]) => `tune ${key} = ${values.join(', ')}`),
    ...(requires.length === 0 ? [] : [`requires: ${requires.join(', ')}`]),
    ...(dtypes.length === 0 ? [] : [`dtypes: ${dtypes.join(', ')}`]),
  ]
    .map((line) => `//! ${line.replaceAll(/\s+/g, ' ')}\n`)
    .join('');
}

/** The source of a registration as a file that registers it again: with directives for all of its members, and no others. */
export function renderKernelFile(registration: KernelRegistration): string {
  const lines = registration.source.split('\n').filter((line) => !/^\s*\/\/!/.test(line));
  return `${renderHeader(registration)}${lines.join('\n')}`;
}
