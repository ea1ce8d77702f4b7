import { Link } from 'wouter';
import { GatedFault } from '../../parts/gated.tsx';
import { Badge, Facts, Loading, Panel, Table } from '../../parts/index.tsx';
import { useSchema } from './asking.ts';
import css from './observe.module.css';
import type { Surface } from './types.ts';

const said = {
  measured: 'measured by this host',
  claimed: 'said by somebody else',
  derived: 'reckoned, or written down by the host',
};

/** All that can be queried. */
export const SurfaceList = ({ surfaces }: { surfaces: readonly Surface[] }) => (
  <Panel title="Surfaces">
    <Table
      caption="All surfaces"
      rows={surfaces}
      keyOf={({ name }) => name}
      columns={[
        {
          key: 'name',
          head: 'Surface',
          cell: ({ name }) => <Link href={`/console/observe/surfaces/${name}`}>{name}</Link>,
        },
        {
          key: 'what',
          head: 'A row is',
          cell: ({ description }) => <span className={css['prose']}>{description}</span>,
        },
        { key: 'time', head: 'Its time', cell: ({ time }) => <code>{time}</code> },
        { key: 'columns', head: 'Columns', number: true, cell: ({ columns }) => columns },
      ]}
    />
  </Panel>
);

/** The columns of a surface: units, where values come from, and what can be asked of them. */
export function SurfaceView({ name }: { name: string }) {
  const schema = useSchema(name);
  if (schema.isPending) return <Loading what="the schema" />;
  if (schema.isError)
    return <GatedFault what="the columns" error={schema.error} retry={() => void schema.refetch()} />;
  const { description, time, key, columns } = schema.data;
  return (
    <Panel
      title={name}
      tools={
        <>
          <Link href="/console/observe/surfaces">All surfaces</Link>
          <Link href={`/console/observe?surface=${encodeURIComponent(name)}`}>Query it</Link>
        </>
      }
    >
      <p>{description}</p>
      <Facts
        facts={[
          ['Time', <code key="time">{time}</code>],
          ['Key', <code key="key">{key.join(', ')}</code>],
          ...Object.entries(said),
        ]}
      />
      <Table
        caption={`Columns of ${name}`}
        rows={columns}
        keyOf={(column) => column.name}
        columns={[
          { key: 'name', head: 'Column', cell: (column) => <code>{column.name}</code> },
          {
            key: 'type',
            head: 'Type',
            cell: ({ type, unit, nullable }) => (
              <>
                {type}
                {unit !== undefined && `, ${unit}`}
                {nullable && <small className={css['muted']}> or none</small>}
              </>
            ),
          },
          {
            key: 'provenance',
            head: 'Provenance',
            cell: ({ provenance }) => <Origin provenance={provenance} />,
          },
          {
            key: 'what',
            head: 'What it is',
            cell: (column) => <span className={css['prose']}>{column.description}</span>,
          },
          {
            key: 'operators',
            head: 'Conditions',
            cell: ({ operators }) => <small className={css['prose']}>{operators.join(' ')}</small>,
          },
          {
            key: 'aggregates',
            head: 'Figures',
            cell: ({ aggregates }) => <small className={css['prose']}>{aggregates.join(' ')}</small>,
          },
        ]}
      />
    </Panel>
  );
}

const tones = { measured: 'good', claimed: 'warn', derived: undefined } as const;
const Origin = ({ provenance }: { provenance: keyof typeof tones }) => (
  <Badge tone={tones[provenance]}>{provenance}</Badge>
);
