import { setDiagnostics } from '@codemirror/lint';
import { EditorState } from '@codemirror/state';
import { describe, expect, it } from 'vitest';
import { type Diagnostic, found, toLint } from '../../web/console/parts/diagnostics.ts';

const doc = 'let one = 1\n\nlet two = 2;';
const at = (line: number, column: number, more: Partial<Diagnostic> = {}): Diagnostic => ({
  line,
  column,
  severity: 'error',
  message: 'wrong',
  ...more,
});

/** The texts that are underlined, with the places that are told. */
function marked(diagnostics: readonly Diagnostic[]): string[] {
  let state = EditorState.create({ doc });
  state = state.update(setDiagnostics(state, toLint(state, diagnostics))).state;
  return found(state).map(({ from, to, line, column }) => `${line}:${column} ${state.sliceDoc(from, to)}`);
}

describe('diagnostics of the editor', () => {
  it('stand at their line and column, to the end that is told or of the word', () =>
    expect(marked([at(3, 5), at(1, 1, { endColumn: 8 })])).toEqual(['1:1 let one', '3:5 two']));

  it('stay within their line and the text, however far they point', () =>
    expect(marked([at(0, 0), at(1, 99), at(2, 1), at(3, 12, { endColumn: 99 }), at(99, 1)])).toEqual([
      '1:1 let',
      '1:12 1',
      '2:1 ',
      '3:12 ;',
      '3:13 ;',
    ]));

  it('are told once where the same is said twice', () =>
    expect(marked([at(3, 5), at(3, 5), at(3, 5, { message: 'other' })])).toEqual(['3:5 two', '3:5 two']));

  it('move along with what is typed before them', () => {
    let state = EditorState.create({ doc });
    state = state.update(setDiagnostics(state, toLint(state, [at(3, 5, { source: 'parse' })]))).state;
    state = state.update({ changes: { from: 0, insert: '// a\n' } }).state;
    expect(found(state)).toMatchObject([{ line: 4, column: 5, source: 'parse', message: 'wrong' }]);
  });
});
