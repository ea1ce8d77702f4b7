/** Converts lines and columns to offsets of the editor and back. */
import { forEachDiagnostic, type Diagnostic as Lint } from '@codemirror/lint';
import type { EditorState, Text } from '@codemirror/state';

export interface Diagnostic {
  /** Line and column are 1-based. */
  readonly line: number;
  readonly column: number;
  /** Exclusive. Default: the end of the word at the position. */
  readonly endColumn?: number;
  readonly severity: 'error' | 'warning' | 'info';
  readonly message: string;
  /** Origin of the diagnostic, for example a gate stage. */
  readonly source?: string;
}

/** A diagnostic at its current position, after later edits. */
export interface PlacedDiagnostic {
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

/** Offset of a 1-based position; the nearest one when the text has no such position. */
export function offsetOf(doc: Text, { line, column }: { readonly line: number; readonly column: number }) {
  if (line < 1) return 0;
  if (line > doc.lines) return doc.length;
  const { from, to } = doc.line(line);
  return Math.min(to, from + Math.max(0, column - 1));
}

/** The diagnostic passed to CodeMirror, which returns it. */
interface TrackedDiagnostic extends Lint {
  /** The position is after the last character of the line, so that character is underlined instead. */
  readonly isAtLineEnd: boolean;
}

export const toEditorDiagnostics = (
  state: EditorState,
  diagnostics: readonly Diagnostic[],
): readonly Lint[] =>
  // Duplicates are removed.
  [...new Map(diagnostics.map((one) => [JSON.stringify(one), one])).values()]
    .map(({ line, column, endColumn, severity, message, source }): TrackedDiagnostic => {
      const start = offsetOf(state.doc, { line, column });
      const bounds = state.doc.lineAt(start);
      const end =
        endColumn === undefined
          ? (state.wordAt(start)?.to ?? start + 1)
          : offsetOf(state.doc, { line, column: Math.max(endColumn, column + 1) });
      // CodeMirror drops an empty range that touches another one.
      const isAtLineEnd = start === bounds.to && bounds.length > 0;
      return {
        from: isAtLineEnd ? start - 1 : start,
        to: Math.min(bounds.to, end),
        severity,
        message,
        isAtLineEnd,
        ...(source === undefined ? {} : { source }),
      };
    })
    .sort((one, other) => one.from - other.from);

export function placedDiagnostics(state: EditorState): readonly PlacedDiagnostic[] {
  const list: PlacedDiagnostic[] = [];
  forEachDiagnostic(state, (diagnostic, from, to) => {
    const { severity, message, source } = diagnostic;
    const at = (diagnostic as TrackedDiagnostic).isAtLineEnd ? to : from;
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
