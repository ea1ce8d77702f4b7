import type { LintReport } from '../../agents/shapes.ts';
import type { Diagnostic } from '../../parts/code-editor.tsx';

/** What lint found, for the editor to show at its lines and to list. @param source that it was found in */
export const diagnosticsOf = (report: LintReport | undefined, source: string): Diagnostic[] => {
  const lines = source.split('\n');
  const as =
    (severity: Diagnostic['severity']) =>
    ({ line, column, code, message }: LintReport['errors'][number]) => {
      // A text in quotes, whole.
      const [quoted] = /^(?:"(?:[^"\\]|\\.)*"|'[^']*')/.exec(lines[line - 1]?.slice(column - 1) ?? '') ?? [];
      return {
        line,
        column,
        ...(quoted === undefined ? {} : { endColumn: column + quoted.length }),
        severity,
        message: `${message} (${code})`,
      };
    };
  return [...(report?.errors.map(as('error')) ?? []), ...(report?.warnings.map(as('warning')) ?? [])];
};

/** All of it in a sentence. */
export function verdictOf({ errors, warnings }: LintReport): string {
  const count = (number: number, what: string) => `${number} ${what}${number === 1 ? '' : 's'}`;
  if (errors.length > 0)
    return `${count(errors.length, 'error')}, ${count(warnings.length, 'warning')}: it cannot be stored yet.`;
  return warnings.length > 0
    ? `No errors, ${count(warnings.length, 'warning')}.`
    : 'Nothing is wrong with it.';
}
