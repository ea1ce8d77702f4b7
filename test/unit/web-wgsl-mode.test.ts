import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type IndentContext, StringStream } from '@codemirror/language';
import { describe, expect, it } from 'vitest';
import { tokenize } from '../../src/lab/wgsl/tokens.ts';
import { wgslMode } from '../../web/ui/wgsl-mode.ts';

interface Shown {
  readonly text: string;
  readonly kind: string | null;
  /** UTF-16, from 0. */
  readonly offset: number;
}

/** The tokens that the editor would color, line by line. */
function shown(source: string): Shown[] {
  const state = wgslMode.startState?.(2) as Parameters<typeof wgslMode.token>[1];
  const all: Shown[] = [];
  let offset = 0;
  for (const line of source.split('\n')) {
    const stream = new StringStream(line, 2, 2);
    while (!stream.eol()) {
      stream.start = stream.pos;
      const kind = wgslMode.token(stream, state);
      if (stream.pos === stream.start)
        throw new Error(`stands still at ${JSON.stringify(line.slice(stream.pos))}`);
      all.push({ text: stream.current(), kind, offset: offset + stream.start });
    }
    offset += line.length + 1;
  }
  return all;
}

/** The kinds of the tokens of a text, without white space. */
const kinds = (source: string): string[] =>
  shown(source)
    .filter(({ text }) => text.trim() !== '')
    .map(({ text, kind }) => `${text} ${kind ?? '-'}`);

const folder = join(import.meta.dirname, '../../wgsl');
const files = readdirSync(folder, { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.wgsl'))
  .map((file) => [file, readFileSync(join(folder, file), 'utf8')] as const);

describe('the WGSL mode of the editor', () => {
  it('finds kernel sources', () => expect(files.length).toBeGreaterThan(40));

  it.each(files)('reads %s without an error, with the same tokens as the lab', (_, source) => {
    const all = shown(source);
    expect(all.filter(({ kind }) => kind === 'invalid')).toEqual([]);
    const code = new Set(
      all
        .filter(({ kind }) => kind !== null && kind !== 'comment' && kind !== 'meta')
        .map(({ offset }) => offset),
    );
    // Operators are split differently: highlighting does not depend on whether `>=` closes a template list.
    const names = tokenize(source).filter(({ kind }) => kind !== 'symbol');
    const starts = new Map(all.map((each) => [each.offset, each]));
    for (const { offset, text, kind } of names) {
      expect(starts.get(offset)?.text, `line ${source.slice(0, offset).split('\n').length}`).toBe(text);
      if (kind === 'number') expect(starts.get(offset)?.kind).toBe('number');
      code.delete(offset);
    }
    const rest = [...code].map((offset) => starts.get(offset)?.kind);
    expect(
      rest.every((kind) => kind === 'operator' || kind === 'punctuation' || kind === 'attributeName'),
    ).toBe(true);
  });

  it.each(files)('recognizes every attribute, directive and comment of %s', (_, source) => {
    const all = shown(source);
    for (const { index, 0: text } of source.matchAll(/\/\/.*/g)) {
      const first = all.find(({ offset }) => offset === index);
      expect(first, text).toMatchObject({ kind: /^\/\/(?:#|!)/.test(text) ? 'meta' : 'comment', text });
    }
    const code = source.replaceAll(/\/\/.*/g, (text) => ' '.repeat(text.length));
    for (const { index } of code.matchAll(/@\w/g)) {
      expect(all.find(({ offset }) => offset === index)?.kind).toBe('attributeName');
      expect(all.find(({ offset }) => offset === index + 1)?.kind).toBe('attributeName');
    }
  });

  it('nests block comments across lines', () => {
    const source = 'a /* one /* two */ // still\n*/ b */ 1';
    expect(kinds(source).slice(0, 4)).toEqual([
      'a variableName',
      '/* one /* two */ // still comment',
      '*/ comment',
      'b variableName',
    ]);
  });

  it('reads the tokens of a binding', () =>
    expect(kinds('@group(0) @binding(1) var<storage, read_write> read: array<vec4<f32>>;')).toEqual([
      '@ attributeName',
      'group attributeName',
      '( punctuation',
      '0 number',
      ') punctuation',
      '@ attributeName',
      'binding attributeName',
      '( punctuation',
      '1 number',
      ') punctuation',
      'var keyword',
      '< operator',
      'storage modifier',
      ', punctuation',
      'read_write modifier',
      '> operator',
      'read variableName.definition',
      ': punctuation',
      'array typeName',
      '< operator',
      'vec4 typeName',
      '< operator',
      'f32 typeName',
      '> operator',
      '> operator',
      '; punctuation',
    ]));

  it('recognizes functions by position, and built-in functions by name', () =>
    expect(kinds('fn own(@builtin(vertex_index) at: u32) { other(bitcast<f32>(at), params.dot); }')).toEqual([
      'fn keyword',
      'own variableName.function.definition',
      '( punctuation',
      '@ attributeName',
      'builtin attributeName',
      '( punctuation',
      'vertex_index atom',
      ') punctuation',
      'at variableName',
      ': punctuation',
      'u32 typeName',
      ') punctuation',
      '{ punctuation',
      'other variableName.function',
      '( punctuation',
      'bitcast variableName.function.standard',
      '< operator',
      'f32 typeName',
      '> operator',
      '( punctuation',
      'at variableName',
      ') punctuation',
      ', punctuation',
      'params variableName',
      '. punctuation',
      'dot propertyName',
      ') punctuation',
      '; punctuation',
      '} punctuation',
    ]));

  it.each(['0', '12', '0x1F', '0x1.8p3f', '0x.8p-1', '1.', '.5', '1e-3f', '2.5e+7h', '7u', '0i', '0X2fu'])(
    'reads the number %s as one token',
    (text) => expect(kinds(`${text};`)).toEqual([`${text} number`, '; punctuation']),
  );

  it.each(['$', '`', '#', '"', '1x'])('marks %s, which is no WGSL', (text) =>
    expect(shown(text).some(({ kind }) => kind === 'invalid')).toBe(true),
  );

  it('indents by open brackets', () => {
    const state = wgslMode.startState?.(2) as Parameters<typeof wgslMode.token>[1];
    const stream = new StringStream('fn main( {', 2, 2);
    while (!stream.eol()) {
      stream.start = stream.pos;
      wgslMode.token(stream, state);
    }
    const context = { unit: 2 } as IndentContext;
    expect(wgslMode.indent?.(state, 'x = 1;', context)).toBe(4);
    expect(wgslMode.indent?.(state, '}', context)).toBe(2);
  });
});
