/** From lines and columns to the editor's offsets and back. */
import { forEachDiagnostic, type Diagnostic as Lint } from '@codemirror/lint';
import type { EditorState, Text } from '@codemirror/state';

export interface Diagnostic {
  /** Both counted from 1. */
  readonly line: number;
  readonly column: number;
  /** Exclusive; the word there where absent. */
  readonly endColumn?: number;
  readonly severity: 'error' | 'warning' | 'info';
  readonly message: string;
  /** What found it, such as a stage of a gate. */
  readonly source?: string;
}

/** A diagnostic where it stands now, after what was typed since. */
export interface Found {
  readonly from: number;
  readonly to: number;
  /** Offset of line and column. */
  readonly at: number;
  readonly line: number;
  readonly column: number;
  readonly severity: Diagnostic['severity'];
  readonly message: string;
  readonly source: string | undefined;
}

/** Of a place counted from 1; the nearest there is where the text has no such place. */
export function offsetOf(doc: Text, { line, column }: { readonly line: number; readonly column: number }) {
  if (line < 1) return 0;
  if (line > doc.lines) return doc.length;
  const { from, to } = doc.line(line);
  return Math.min(to, from + Math.max(0, column - 1));
}

/** As it is handed to the editor, which gives it back. */
interface Marked extends Lint {
  /** It stands behind the last character of its line, which is underlined in its place. */
  readonly isBehind: boolean;
}

export const toLint = (state: EditorState, diagnostics: readonly Diagnostic[]): readonly Lint[] =>
  // The same said twice of a place says no more.
  [...new Map(diagnostics.map((one) => [JSON.stringify(one), one])).values()]
    .map(({ line, column, endColumn, severity, message, source }): Marked => {
      const start = offsetOf(state.doc, { line, column });
      const bounds = state.doc.lineAt(start);
      const end =
        endColumn === undefined
          ? (state.wordAt(start)?.to ?? start + 1)
          : offsetOf(state.doc, { line, column: Math.max(endColumn, column + 1) });
      // The editor loses an empty mark that touches another one.
      const isBehind = start === bounds.to && bounds.length > 0;
      return {
        from: isBehind ? start - 1 : start,
        to: Math.min(bounds.to, end),
        severity,
        message,
        isBehind,
        ...(source === undefined ? {} : { source }),
      };
    })
    .sort((one, other) => one.from - other.from);

export function found(state: EditorState): readonly Found[] {
  const list: Found[] = [];
  forEachDiagnostic(state, (given, from, to) => {
    const { severity, message, source } = given;
    const at = (given as Marked).isBehind ? to : from;
    const { number, from: start } = state.doc.lineAt(at);
    list.push({
      from,
      to,
      at,
      line: number,
      column: at - start + 1,
      severity: severity === 'hint' ? 'info' : severity,
      message,
      source,
    });
  });
  return list;
}
