import { agentsCss as css, FilterSelect, ToolBadge, ValueView } from '../../agents/parts.tsx';
import { Badge, Empty, FaultNote, Loading, Panel, Table } from '../../../ui/index.tsx';
import { useUrlState } from '../../../ui/url-state.ts';
import { useTools } from './use-agents.ts';

const states = [
  ['', 'all'],
  ['available', 'available'],
  ['gated', 'gated'],
  ['unavailable', 'unavailable'],
] as const;

/** The tool catalog. */
export function ToolList() {
  const tools = useTools();
  const [state, setState] = useUrlState('state');
  const shown = tools.data?.filter(({ availability }) => state === '' || availability === state);
  return (
    <Panel
      title="Catalog"
      tools={<FilterSelect label="State" value={state} onChoose={setState} options={states} />}
    >
      <p className={css['quiet']}>
        An <em>available</em> tool runs immediately. A <em>gated</em> tool stages a change that a person must
        approve. An <em>unavailable</em> tool cannot run.
      </p>
      {tools.isPending && <Loading what="the tools" />}
      {tools.isError && <FaultNote error={tools.error} retry={() => void tools.refetch()} />}
      {shown?.length === 0 && <Empty title={`No tool is ${state}.`}>Choose another state.</Empty>}
      {shown && shown.length > 0 && (
        <Table
          caption="Tools"
          rows={shown}
          keyOf={({ name }) => name}
          columns={[
            { key: 'name', head: 'Tool', cell: ({ name }) => <code>{name}</code> },
            {
              key: 'state',
              head: 'State',
              cell: ({ availability }) => <ToolBadge availability={availability} />,
            },
            {
              key: 'what',
              head: 'Description',
              cell: ({ name, description, input_schema: schema, reason, destructive, pin }) => (
                <div className={`${css['tool']} ${css['wide']}`}>
                  <span>
                    {description} {destructive && <Badge>makes changes</Badge>}
                  </span>
                  {reason !== undefined && <span className={css['quiet']}>{reason}</span>}
                  <details className={css['fold']}>
                    <summary className={css['quiet']}>Arguments</summary>
                    <ValueView value={schema} label={`Arguments of ${name}`} />
                  </details>
                  {pin !== undefined && <span className={css['quiet']}>Pin: {pin}</span>}
                </div>
              ),
            },
            { key: 'source', head: 'Source', cell: ({ source }) => source },
          ]}
        />
      )}
    </Panel>
  );
}
