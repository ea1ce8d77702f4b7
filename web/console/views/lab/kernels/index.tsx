import { useState } from 'react';
import { Link, useLocation } from 'wouter';
import { Badge, Empty, FaultNote, Field, Loading, Panel, Table } from '../../../../ui/index.tsx';
import { useUrlState } from '../../../../ui/url-state.ts';
import { isChanged, readDraft } from './drafts.ts';
import { KernelPage } from './kernel-page.tsx';
import css from './kernels.module.css';
import { ModelParity } from './model-parity.tsx';
import { workbenchPath } from './paths.ts';
import { type Op, type Parts, useOps, useParts } from './queries.ts';
import { RegisteredKernels } from './registered-kernels.tsx';
import { Workbench } from './workbench.tsx';

/** `/console/lab/kernels`: write, check and bind kernels. `/console/lab/kernels/<name or digest>`: a registered kernel. */
export default function Kernels() {
  const [location] = useLocation();
  const kernel = decodedSegment(location.split('/')[4] ?? '');
  return kernel === '' ? <KernelList /> : <KernelPage key={kernel} kernel={kernel} />;
}

function decodedSegment(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

function KernelList() {
  const [wanted, setWanted] = useUrlState('op');
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
            <select {...control} value={op?.op ?? ''} onChange={({ target }) => setWanted(target.value)}>
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
      {op && <Workbench key={`${op.op} ${openedCount}`} op={op} />}
      {!op && wanted !== '' && <Empty title={`There is no op ${wanted}.`}>Choose one above.</Empty>}
      <RegisteredKernels onOpened={() => setOpened((count) => count + 1)} />
      {!op && <OpsPanel ops={ops.data} slots={parts.data?.slots ?? []} />}
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
                <Link href={workbenchPath(op)}>{op}</Link> {hasDraft(op) && <Badge tone="warn">draft</Badge>}
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
