import { Link } from 'wouter';
import { ProtectedRouteFault } from '../../shell/protected-route.tsx';
import { Badge, Facts, Loading, Panel, Table } from '../../../ui/index.tsx';
import { useSchema } from './queries.ts';
import css from './observe.module.css';
import type { Surface } from './types.ts';

const provenanceTexts = {
  measured: 'measured by this host',
  claimed: 'claimed by a client',
  derived: 'computed or recorded by the host',
};

/** List of all surfaces. */
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
          head: 'Row',
          cell: ({ description }) => <span className={css['prose']}>{description}</span>,
        },
        { key: 'time', head: 'Time column', cell: ({ time }) => <code>{time}</code> },
        { key: 'columns', head: 'Columns', number: true, cell: ({ columns }) => columns },
      ]}
    />
  </Panel>
);

/** Columns of a surface: types, units, provenance, operators and aggregates. */
export function SurfaceView({ name }: { name: string }) {
  const schema = useSchema(name);
  if (schema.isPending) return <Loading what="the schema" />;
  if (schema.isError)
    return (
      <ProtectedRouteFault what="the columns" error={schema.error} retry={() => void schema.refetch()} />
    );
  const { description, time, key, columns } = schema.data;
  return (
    <Panel
      title={name}
      tools={
        <>
          <Link href="/console/observe/surfaces">All surfaces</Link>
          <Link href={`/console/observe/explore?surface=${encodeURIComponent(name)}`}>Query</Link>
        </>
      }
    >
      <p>{description}</p>
      <Facts
        facts={[
          ['Time', <code key="time">{time}</code>],
          ['Key', <code key="key">{key.join(', ')}</code>],
          ...Object.entries(provenanceTexts),
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
                {nullable && <small className={css['muted']}> or null</small>}
              </>
            ),
          },
          {
            key: 'provenance',
            head: 'Provenance',
            cell: ({ provenance }) => <ProvenanceBadge provenance={provenance} />,
          },
          {
            key: 'what',
            head: 'Description',
            cell: (column) => <span className={css['prose']}>{column.description}</span>,
          },
          {
            key: 'operators',
            head: 'Conditions',
            cell: ({ operators }) => <small className={css['prose']}>{operators.join(' ')}</small>,
          },
          {
            key: 'aggregates',
            head: 'Aggregates',
            cell: ({ aggregates }) => <small className={css['prose']}>{aggregates.join(' ')}</small>,
          },
        ]}
      />
    </Panel>
  );
}

const provenanceTones = { measured: 'good', claimed: 'warn', derived: undefined } as const;
const ProvenanceBadge = ({ provenance }: { provenance: keyof typeof provenanceTones }) => (
  <Badge tone={provenanceTones[provenance]}>{provenance}</Badge>
);
