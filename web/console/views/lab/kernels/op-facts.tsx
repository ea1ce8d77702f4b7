import { Table } from '../../../../ui/index.tsx';
import css from './kernels.module.css';
import type { Op } from './queries.ts';

/** Contract of an op: oracle, bindings and dimensions. */
export const OpFacts = ({ op }: { op: Op }) => (
  <details className={css['facts']}>
    <summary>
      <code>{op.summary}</code> {op.tokens === 'one' && '(steps of one token)'}
    </summary>
    <p>Oracle: {op.oracle}</p>
    <Table
      caption={`Bindings of ${op.op}, group 0`}
      rows={op.bindings}
      keyOf={({ binding }) => String(binding)}
      columns={[
        { key: 'binding', head: 'Binding', number: true, cell: ({ binding }) => binding },
        { key: 'name', head: 'Name', cell: ({ name }) => <code>{name}</code> },
        { key: 'access', head: 'Access', cell: ({ access }) => access },
        { key: 'dtype', head: 'Type', cell: ({ dtype = '' }) => dtype },
        { key: 'shape', head: 'Shape', cell: ({ shape }) => shape && `[${shape.join(', ')}]` },
      ]}
    />
    <Table
      caption={`Dims of ${op.op}`}
      rows={op.dims}
      keyOf={({ name }) => name}
      columns={[
        { key: 'name', head: 'Dim', cell: ({ name }) => <code>{name}</code> },
        { key: 'summary', head: 'Description', cell: ({ summary }) => summary },
      ]}
    />
  </details>
);
