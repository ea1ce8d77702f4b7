import type { ReactNode } from 'react';
import { agentsCss as css } from '../../agents/parts.tsx';
import type { LintReport } from '../../agents/schemas.ts';
import { CodeEditor } from '../../../ui/code-editor.tsx';
import { FaultNote, Panel, Row } from '../../../ui/index.tsx';
import { lintDiagnostics, lintSummary } from './lint-diagnostics.ts';
import type { useLint } from './use-lint.ts';

/** Editor for the source of a workflow, with lint findings. */
export function SourcePanel(props: {
  source: string;
  onChange: (source: string) => void;
  lint: ReturnType<typeof useLint>;
  /** Lint report of a refused save. */
  refusedReport: LintReport | undefined;
  children: ReactNode;
}) {
  const { source, onChange, lint, refusedReport, children } = props;
  const report = refusedReport ?? lint.report;
  return (
    <Panel
      title="Source"
      tools={
        <span className={css['quiet']} role="status">
          {report && (refusedReport !== undefined || lint.isCurrent) ? lintSummary(report) : 'Checking ...'}
        </span>
      }
    >
      <CodeEditor
        label="Source of the workflow, TOML"
        language="toml"
        value={source}
        onChange={onChange}
        lines={34}
        diagnostics={lintDiagnostics(report, source)}
      />
      <Row>{children}</Row>
      {lint.error !== null && <FaultNote error={lint.error} />}
    </Panel>
  );
}
