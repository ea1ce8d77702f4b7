import { agentsCss as css, RelativeTime, StateBadge, Duration, ValueView } from '../../agents/parts.tsx';
import type { RunDetail } from '../../agents/schemas.ts';
import { Empty, Panel, Table } from '../../../ui/index.tsx';

/** The steps so far, in order of execution. */
export function Steps({ run }: { run: RunDetail }) {
  const steps = run.step_records;
  const hasCycles = steps.some(({ cycle }) => cycle !== undefined);
  return (
    <Panel title="Steps">
      {steps.length === 0 ? (
        <Empty title="No step has started.">
          {run.suspend_kind === 'entry_gate'
            ? 'Steps run when the entry gate fires.'
            : 'The first step starts soon.'}
        </Empty>
      ) : (
        <Table
          caption="Steps so far"
          rows={steps}
          keyOf={({ id, cycle }) => `${cycle} ${id}`}
          columns={[
            { key: 'id', head: 'Step', cell: ({ id }) => id },
            ...(hasCycles
              ? [
                  {
                    key: 'cycle',
                    head: 'Cycle',
                    number: true,
                    cell: ({ cycle }: (typeof steps)[number]) => cycle,
                  },
                ]
              : []),
            { key: 'state', head: 'State', cell: ({ state }) => <StateBadge state={state} /> },
            { key: 'attempts', head: 'Attempts', number: true, cell: ({ attempts }) => attempts },
            { key: 'at', head: 'Started', cell: ({ started_at: at }) => <RelativeTime time={at} /> },
            {
              key: 'took',
              head: 'Duration',
              number: true,
              cell: ({ started_at: from, ended_at: to }) => <Duration from={from} to={to} />,
            },
            {
              key: 'output',
              head: 'Output',
              cell: ({ id, output, error }) => (
                <div className={`${css['tool']} ${css['output']}`}>
                  {error !== undefined && <span className={css['prose']}>{error}</span>}
                  {output !== undefined && (
                    <details className={css['fold']}>
                      <summary>{summarizeOutput(output)}</summary>
                      <ValueView value={output} label={`Output of ${id}`} />
                    </details>
                  )}
                </div>
              ),
            },
          ]}
        />
      )}
    </Panel>
  );
}

const maxSummaryLength = 70;
function summarizeOutput(output: unknown): string {
  const text = typeof output === 'string' ? output : JSON.stringify(output);
  const line = text.replaceAll(/\s+/g, ' ').trim();
  if (line === '') return '(empty)';
  return line.length > maxSummaryLength ? `${line.slice(0, maxSummaryLength - 3)}...` : line;
}
