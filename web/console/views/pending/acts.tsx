import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { agentsCss as css, Ago, Choice, Id, Value } from '../../agents/parts.tsx';
import { api, held } from '../../api/client.ts';
import { Badge, Empty, FaultNote, Loading, Panel, Table } from '../../parts/index.tsx';
import { useUrlState } from '../../parts/url-state.ts';

const kinds = [
  ['', 'all'],
  ['decisions', 'approved or discarded'],
  ['run', 'runs'],
  ['workflow', 'workflows'],
  ['agent', 'agents'],
] as const;
const amounts = [
  ['100', 'last 100'],
  ['1000', 'last 1000'],
] as const;

const isOfKind = (verb: string, kind: string) =>
  kind === 'decisions' ? /approve|discard|pending/.test(verb) : kind === '' || verb.startsWith(`${kind}.`);

/** The action journal, newest first. */
export function Acts() {
  const [kind, setKind] = useUrlState('kind');
  const [amount, setAmount] = useUrlState('last', '100');
  const limit = amount === '1000' ? 1000 : 100;
  const acts = useQuery({
    queryKey: ['acts', limit],
    queryFn: () => held(api.GET('/agent/v1/acts', { params: { query: { limit: String(limit) } } })),
    refetchInterval: 2000,
    placeholderData: keepPreviousData,
  });
  const shown = acts.data?.acts.filter(({ verb }) => isOfKind(verb, kind)).toReversed();
  return (
    <Panel
      title="Action journal"
      tools={
        <>
          <Choice label="Actions" value={kind} choose={setKind} options={kinds} />
          <Choice label="Show" value={amount} choose={setAmount} options={amounts} />
        </>
      }
    >
      {acts.isPending && <Loading what="the journal" />}
      {acts.isError && <FaultNote error={acts.error} retry={() => void acts.refetch()} />}
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
          columns={[
            { key: 'at', head: 'When', cell: ({ at }) => <Ago time={at} /> },
            { key: 'verb', head: 'Action', cell: ({ verb }) => <code>{verb}</code> },
            { key: 'target', head: 'Target', cell: ({ target }) => <Id id={target} /> },
            {
              key: 'outcome',
              head: 'Outcome',
              cell: ({ outcome }) => <Badge tone={outcome === 'applied' ? 'good' : 'bad'}>{outcome}</Badge>,
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
                      <Value value={details} label={`Details of action ${seq}`} />
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
