import type { LintReport } from '../../agents/schemas.ts';
import type { Diagnostic } from '../../../ui/code-editor.tsx';

/** Lint findings as diagnostics for the editor. @param source the source that was linted */
export const lintDiagnostics = (report: LintReport | undefined, source: string): Diagnostic[] => {
  const lines = source.split('\n');
  const toDiagnostic =
    (severity: Diagnostic['severity']) =>
    ({ line, column, code, message }: LintReport['errors'][number]) => {
      // Marks a quoted string completely.
      const [quoted] = /^(?:"(?:[^"\\]|\\.)*"|'[^']*')/.exec(lines[line - 1]?.slice(column - 1) ?? '') ?? [];
      return {
        line,
        column,
        ...(quoted === undefined ? {} : { endColumn: column + quoted.length }),
        severity,
        message: `${message} (${code})`,
      };
    };
  return [
    ...(report?.errors.map(toDiagnostic('error')) ?? []),
    ...(report?.warnings.map(toDiagnostic('warning')) ?? []),
  ];
};

/** Summary of a lint report in one sentence. */
export function lintSummary({ errors, warnings }: LintReport): string {
  const pluralize = (number: number, what: string) => `${number} ${what}${number === 1 ? '' : 's'}`;
  if (errors.length > 0)
    return `${pluralize(errors.length, 'error')}, ${pluralize(warnings.length, 'warning')}: it cannot be stored yet.`;
  return warnings.length > 0 ? `No errors, ${pluralize(warnings.length, 'warning')}.` : 'No errors.';
}
