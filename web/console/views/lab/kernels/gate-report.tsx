import type { Diagnostic } from '../../../../ui/code-editor.tsx';
import { CopyValue } from '../../../../ui/copy.tsx';
import { Badge, Button, Facts, Panel, Row, Table } from '../../../../ui/index.tsx';
import { formatMs } from '../../../../ui/format.ts';
import type { Report } from './drafts.ts';
import css from './kernels.module.css';
import { formatError } from './parity-heat-map.tsx';
import { ParityTable } from './parity-table.tsx';
import { StateBadge } from '../../../../ui/state-badge.tsx';

const stages = ['parse', 'interface', 'safety', 'pipeline', 'parity'] as const;
const stageDescriptions: Readonly<Record<(typeof stages)[number], string>> = {
  parse: 'WGSL compilation',
  interface: 'bindings, types and limits that the op requires',
  safety: 'unbounded loops, and accesses that bounds checks miss',
  pipeline: 'pipeline compilation on this adapter',
  parity: 'results compared with the oracle',
};
const severityTones = { error: 'bad', warning: 'warn', info: undefined } as const;

/**
 * Report of the gate by stage.
 * @param props.isStale the source has changed since the check
 * @param props.areCasesFolded the table of parity cases is closed while all passed
 */
export function GateReport(props: {
  report: Report;
  isStale: boolean;
  areCasesFolded?: boolean;
  goTo: (place: { line: number; column: number }) => void;
}) {
  const { report, isStale, areCasesFolded = false, goTo } = props;
  const findings = report.stages.flatMap(({ stage, findings: all }) =>
    all.map((finding, index) => ({ ...finding, stage, key: `${stage} ${index}` })),
  );
  return (
    <Panel
      title={
        <>
          Gate: {report.kernel}{' '}
          <Badge tone={report.accepted ? (report.unverified ? 'warn' : 'good') : 'bad'}>
            {verdictOf(report)}
          </Badge>
        </>
      }
      tools={isStale && <span className={css['note']}>The source has changed since this check.</span>}
    >
      <ol className={css['stages']} aria-label="Stages of the gate">
        {stages.map((name) => {
          const reached = report.stages.find(({ stage }) => stage === name);
          const text = reached === undefined ? 'not reached' : reached.ok ? 'passed' : 'failed';
          return (
            <li key={name}>
              <span>
                <strong>{name}</strong> <StateBadge state={text} isRecorded />
              </span>
              <span className={css['note']}>{stageDescriptions[name]}</span>
            </li>
          );
        })}
      </ol>
      {findings.length > 0 && (
        <Table
          caption="Findings"
          rows={findings}
          keyOf={({ key }) => key}
          columns={[
            { key: 'stage', head: 'Stage', cell: ({ stage }) => stage },
            {
              key: 'severity',
              head: 'Severity',
              cell: ({ severity }) => <Badge tone={severityTones[severity]}>{severity}</Badge>,
            },
            {
              key: 'place',
              head: 'Location',
              cell: ({ line, column = 1 }) =>
                line === undefined ? (
                  ''
                ) : (
                  <Button onClick={() => goTo({ line, column })} aria-label={`Go to ${line}:${column}`}>
                    {line}:{column}
                  </Button>
                ),
            },
            {
              key: 'message',
              head: 'Finding',
              cell: ({ code, message }) => (
                <span className={css['finding']}>
                  {message} <code className={css['note']}>{code}</code>
                </span>
              ),
            },
          ]}
        />
      )}
      <ParityTable report={report} isFolded={areCasesFolded} />
      <TuningTable report={report} />
      <Facts
        facts={[
          ['Digest', <CopyValue key="digest" value={report.digest} label="the digest" />],
          ['Duration', formatMs(report.elapsed_ms)],
        ]}
      />
    </Panel>
  );
}

/** Findings that have a position, for the editor. */
export const reportDiagnostics = ({ stages: reached }: Report): readonly Diagnostic[] =>
  reached.flatMap(({ stage, findings }) =>
    findings.flatMap(({ line, column = 1, length, severity, message }) =>
      line === undefined
        ? []
        : [
            {
              line,
              column,
              ...(length === undefined ? {} : { endColumn: column + length }),
              severity,
              message,
              source: stage,
            },
          ],
    ),
  );

export function verdictOf({ accepted, unverified, stages: reachedStages }: Report): string {
  if (accepted) return unverified ? 'compiled, not compared' : 'accepted';
  const failed = reachedStages.filter(({ ok }) => !ok).map(({ stage }) => stage);
  return `rejected by ${failed.join(' and ')}`;
}

function TuningTable({ report: { tuning = [] } }: { report: Report }) {
  if (tuning.length === 0) return null;
  const text = (values: Readonly<Record<string, number>>) =>
    Object.entries(values)
      .map(([name, value]) => `${name} = ${value}`)
      .join(', ');
  return (
    <>
      <h3>Tuning results</h3>
      <Table
        caption="Overrides by shape: the fastest that is faster than the default beyond the noise, else the default"
        rows={tuning}
        keyOf={({ shape }) => shape}
        columns={[
          { key: 'shape', head: 'Shape', cell: ({ shape }) => shape },
          { key: 'best', head: 'Selected', cell: ({ best }) => <code>{text(best)}</code> },
          { key: 'ms', head: 'ms', number: true, cell: (one) => formatError(one.best_ms) },
          { key: 'builtin', head: 'Built-in ms', number: true, cell: (one) => formatError(one.builtin_ms) },
          {
            key: 'tried',
            head: 'Candidates',
            cell: ({ tried }) => (
              <details>
                <summary>{tried.length}</summary>
                <Row>
                  {tried.map(({ overrides, ms }) => (
                    <span key={text(overrides)}>
                      <code>{text(overrides)}</code> {formatError(ms)} ms
                    </span>
                  ))}
                </Row>
              </details>
            ),
          },
        ]}
      />
    </>
  );
}
