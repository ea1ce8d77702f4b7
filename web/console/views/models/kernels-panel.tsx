import { Link } from 'wouter';
import { CopyValue } from '../../../ui/copy.tsx';
import { Badge, FaultNote, Loading, Panel, Table } from '../../../ui/index.tsx';
import { useParts } from '../lab/kernels/queries.ts';
import css from './models.module.css';

/** Which kernels run the resident model: the lab's parts, by slot. */
export function KernelsPanel() {
  const parts = useParts();
  const slots = parts.data?.slots ?? [];
  const registered = slots.filter(({ bound }) => !bound.startsWith('builtin')).length;
  return (
    <Panel title="Kernels of the resident model" tools={<Link href="/console/lab">Lab</Link>}>
      {parts.isPending && <Loading what="the kernels" />}
      {parts.isError && <FaultNote error={parts.error} retry={() => void parts.refetch()} />}
      {parts.data && (
        <>
          <p>
            {slots.length === 1 ? '1 slot' : `${slots.length} slots`};{' '}
            {registered === 0 ? 'all use' : `${registered} use registered kernels, the others`} built-in
            kernels, selected by measurements on this adapter.
          </p>
          <details className={css['details']}>
            <summary>Show the kernels</summary>
            <Table
              caption="Kernels by slot"
              rows={slots}
              keyOf={({ slot }) => slot}
              columns={[
                { key: 'slot', head: 'Slot', cell: ({ slot }) => <code>{slot}</code> },
                { key: 'op', head: 'Op', cell: ({ op }) => op },
                {
                  key: 'kernel',
                  head: 'Kernel',
                  cell: ({ bound, slot }) => (
                    <span className={css['kernel']}>
                      <CopyValue value={bound} label={`the kernel of ${slot}`} />
                      {!bound.startsWith('builtin') && <Badge tone="good">registered</Badge>}
                    </span>
                  ),
                },
              ]}
            />
          </details>
        </>
      )}
    </Panel>
  );
}
