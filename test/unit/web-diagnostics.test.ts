import { setDiagnostics } from '@codemirror/lint';
import { EditorState } from '@codemirror/state';
import { describe, expect, it } from 'vitest';
import { type Diagnostic, placedDiagnostics, toEditorDiagnostics } from '../../web/ui/diagnostics.ts';

const doc = 'let one = 1\n\nlet two = 2;';
const at = (line: number, column: number, more: Partial<Diagnostic> = {}): Diagnostic => ({
  line,
  column,
  severity: 'error',
  message: 'wrong',
  ...more,
});

/** The underlined texts, with the reported positions. */
function marked(diagnostics: readonly Diagnostic[]): string[] {
  let state = EditorState.create({ doc });
  state = state.update(setDiagnostics(state, toEditorDiagnostics(state, diagnostics))).state;
  return placedDiagnostics(state).map(
    ({ from, to, line, column }) => `${line}:${column} ${state.sliceDoc(from, to)}`,
  );
}

describe('diagnostics of the editor', () => {
  it('start at their line and column, and end at the reported end or the end of the word', () =>
    expect(marked([at(3, 5), at(1, 1, { endColumn: 8 })])).toEqual(['1:1 let one', '3:5 two']));

  it('are clipped to their line and the text', () =>
    expect(marked([at(0, 0), at(1, 99), at(2, 1), at(3, 12, { endColumn: 99 }), at(99, 1)])).toEqual([
      '1:1 let',
      '1:12 1',
      '2:1 ',
      '3:12 ;',
      '3:13 ;',
    ]));

  it('are deduplicated', () =>
    expect(marked([at(3, 5), at(3, 5), at(3, 5, { message: 'other' })])).toEqual(['3:5 two', '3:5 two']));

  it('move with text typed before them', () => {
    let state = EditorState.create({ doc });
    state = state.update(
      setDiagnostics(state, toEditorDiagnostics(state, [at(3, 5, { source: 'parse' })])),
    ).state;
    state = state.update({ changes: { from: 0, insert: '// a\n' } }).state;
    expect(placedDiagnostics(state)).toMatchObject([
      { line: 4, column: 5, source: 'parse', message: 'wrong' },
    ]);
  });
});
