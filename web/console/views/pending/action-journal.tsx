import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { agentsCss as css, RelativeTime, FilterSelect, IdLink, ValueView } from '../../agents/parts.tsx';
import { api, unwrap } from '../../../api/client.ts';
import { Empty, FaultNote, Loading, Panel, Table } from '../../../ui/index.tsx';
import { useUrlState } from '../../../ui/url-state.ts';
import { StateBadge } from '../../../ui/state-badge.tsx';

const kinds = [
  ['', 'all'],
  ['decisions', 'approved or discarded'],
  ['run', 'runs'],
  ['workflow', 'workflows'],
  ['agent', 'agents'],
] as const;
const limitChoices = [
  ['100', 'last 100'],
  ['1000', 'last 1000'],
] as const;

const matchesKind = (verb: string, kind: string) =>
  kind === 'decisions' ? /approve|discard|pending/.test(verb) : kind === '' || verb.startsWith(`${kind}.`);

/** The action journal, newest first. */
export function ActionJournal() {
  const [kind, setKind] = useUrlState('kind');
  const [limitParam, setLimitParam] = useUrlState('last', '100');
  const limit = limitParam === '1000' ? 1000 : 100;
  const actions = useQuery({
    queryKey: ['acts', limit],
    queryFn: () => unwrap(api.GET('/agent/v1/acts', { params: { query: { limit: String(limit) } } })),
    placeholderData: keepPreviousData,
  });
  const shown = actions.data?.acts.filter(({ verb }) => matchesKind(verb, kind)).toReversed();
  return (
    <Panel
      title="Action journal"
      tools={
        <>
          <FilterSelect label="Actions" value={kind} onChoose={setKind} options={kinds} />
          <FilterSelect label="Show" value={limitParam} onChoose={setLimitParam} options={limitChoices} />
        </>
      }
    >
      {actions.isPending && <Loading what="the journal" />}
      {actions.isError && <FaultNote error={actions.error} retry={() => void actions.refetch()} />}
      {shown?.length === 0 && (
        <Empty title="No matching actions.">
          The journal records who stored, started, approved or refused something.
        </Empty>
      )}
      {shown && shown.length > 0 && (
        <Table
          caption="Actions"
          rows={shown}
          keyOf={({ seq }) => String(seq)}
          filter={{
            what: 'actions',
            textOf: ({ verb, target, outcome, by, note, reason }) =>
              [verb, target, outcome, by, note, reason].join(' '),
          }}
          columns={[
            { key: 'at', head: 'When', cell: ({ at }) => <RelativeTime time={at} /> },
            { key: 'verb', head: 'Action', cell: ({ verb }) => <code>{verb}</code> },
            { key: 'target', head: 'Target', cell: ({ target }) => <IdLink id={target} /> },
            {
              key: 'outcome',
              head: 'Outcome',
              cell: ({ outcome }) => <StateBadge state={outcome} isRecorded />,
            },
            { key: 'by', head: 'By', cell: ({ by }) => by },
            {
              key: 'why',
              head: 'Note and details',
              cell: ({ seq, reason, note, details }) => (
                <div className={`${css['tool']} ${css['output']}`}>
                  {note !== undefined && <span className={css['prose']}>{note}</span>}
                  {reason !== undefined && <span className={css['quiet']}>{reason}</span>}
                  {details !== undefined && (
                    <details className={css['fold']}>
                      <summary className={css['quiet']}>Details</summary>
                      <ValueView value={details} label={`Details of action ${seq}`} />
                    </details>
                  )}
                </div>
              ),
            },
            { key: 'seq', head: 'No.', number: true, cell: ({ seq }) => seq },
          ]}
        />
      )}
    </Panel>
  );
}
