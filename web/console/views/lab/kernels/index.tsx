import { useState } from 'react';
import { Link, useLocation } from 'wouter';
import { Badge, Empty, FaultNote, Field, Loading, Panel, Table } from '../../../../ui/index.tsx';
import { isChanged, readDraft } from './drafts.ts';
import css from './kernels.module.css';
import { ModelParity } from './model-parity.tsx';
import { type Op, type Parts, useOps, useParts } from './queries.ts';
import { RegisteredKernels } from './registered-kernels.tsx';
import { Workbench } from './workbench.tsx';

/** `/console/lab/kernels/<op>`: write, check and bind kernels. */
export default function Kernels() {
  const [location, navigate] = useLocation();
  const wanted = decodeURIComponent(location.split('/')[4] ?? '');
  const ops = useOps();
  const parts = useParts();
  // Remounts the workbench when a draft is replaced from the list of registered kernels.
  const [openedCount, setOpened] = useState(0);
  if (ops.error) return <FaultNote error={ops.error} retry={() => void ops.refetch()} />;
  if (!ops.data) return <Loading what="the ops" />;
  const op = ops.data.find((each) => each.op === wanted);
  return (
    <div className={css['view']}>
      <div className={css['line']}>
        <Field
          label="Op"
          hint="What the kernel computes. Each op has its own draft, so switching loses nothing."
        >
          {(control) => (
            <select
              {...control}
              value={op?.op ?? ''}
              onChange={({ target }) => navigate(`/console/lab/kernels${target.value && `/${target.value}`}`)}
            >
              <option value="">Choose an op ...</option>
              {ops.data.map((each) => (
                <option key={each.op} value={each.op}>
                  {each.op}
                </option>
              ))}
            </select>
          )}
        </Field>
      </div>
      {op ? (
        <Workbench key={`${op.op} ${openedCount}`} op={op} />
      ) : wanted === '' ? (
        <OpsPanel ops={ops.data} slots={parts.data?.slots ?? []} />
      ) : (
        <Empty title={`There is no op ${wanted}.`}>Choose one above.</Empty>
      )}
      <RegisteredKernels onOpened={() => setOpened((count) => count + 1)} />
      <ModelParity />
    </div>
  );
}

/** Slots name the op for any step size; kernels for single-token steps run in the same slots. */
const slotOp = (op: string): string => op.replace('matvec', 'matmul').replace(/_decode$/, '');

function OpsPanel({ ops, slots }: { ops: readonly Op[]; slots: Parts['slots'] }) {
  const hasDraft = (op: string) => {
    const draft = readDraft(op);
    return draft !== undefined && isChanged(draft);
  };
  return (
    <Panel title="Ops that kernels can implement">
      <Table
        caption="Ops"
        rows={ops}
        keyOf={({ op }) => op}
        filter={{ what: 'ops', textOf: ({ op, summary }) => `${op} ${summary}` }}
        columns={[
          {
            key: 'op',
            head: 'Op',
            cell: ({ op }) => (
              <>
                <Link href={`/console/lab/kernels/${op}`}>{op}</Link>{' '}
                {hasDraft(op) && <Badge tone="warn">draft</Badge>}
              </>
            ),
          },
          { key: 'summary', head: 'Computes', cell: ({ summary }) => summary },
          {
            key: 'slots',
            head: 'In this model',
            cell: ({ op }) =>
              slots
                .filter((slot) => slot.op === slotOp(op))
                .map(({ slot }) => slot)
                .join(', '),
          },
        ]}
      />
    </Panel>
  );
}
